// SPDX-License-Identifier: Apache-2.0
//! Reads a digit with a network, through OpenXRT's C API:
//!     make -C examples/rust run
//!     digits MODEL [ENGINE]
mod openxrt;

use std::error::Error;

/// A scanned zero, 8 x 8 pixels from 0 to 16.
const PICTURE: [u8; 64] = [
    0, 0, 5, 13, 9, 1, 0, 0, //
    0, 0, 13, 15, 10, 15, 5, 0, //
    0, 3, 15, 2, 0, 11, 8, 0, //
    0, 4, 12, 0, 0, 8, 8, 0, //
    0, 5, 8, 0, 0, 9, 8, 0, //
    0, 4, 11, 0, 1, 12, 7, 0, //
    0, 2, 14, 5, 10, 12, 0, 0, //
    0, 0, 6, 13, 10, 0, 0, 0,
];

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().collect();
    if arguments.len() < 2 {
        return Err("usage: digits MODEL [ENGINE]".into());
    }
    let engine = arguments.get(2).map_or("auto", String::as_str);
    println!("OpenXRT {}", openxrt::version());
    let program = openxrt::Program::load(&arguments[1], &[("engine", engine)])?;
    for (name, type_text, _) in program.inputs()? {
        println!("input {}: {}", name, type_text);
    }

    let pixels: Vec<f32> = PICTURE.iter().map(|&p| f32::from(p) / 16.0).collect();
    let scores = program.run(&[(&pixels, &[1, 1, 8, 8])])?.remove(0);
    let best = (0..scores.len()).fold(0, |a, b| if scores[b] > scores[a] { b } else { a });
    println!("digit {} (score {:.3})", best, scores[best]);

    // A program is shared by threads as it is.
    let same = std::thread::scope(|scope| {
        let runs: Vec<_> = (0..4)
            .map(|_| scope.spawn(|| program.run(&[(&pixels, &[1, 1, 8, 8])])))
            .collect();
        runs.into_iter()
            .all(|run| matches!(run.join(), Ok(Ok(ref made)) if made[0] == scores))
    });
    println!(
        "four threads: {}",
        if same {
            "the same scores"
        } else {
            "other scores"
        }
    );

    match program.run(&[(&pixels, &[8, 8])]) {
        Ok(_) => return Err("a wrong shape was accepted".into()),
        Err(error) => println!("refused: {}", error),
    }
    println!("{}", program.explain()?);
    Ok(())
}
