// SPDX-License-Identifier: Apache-2.0
//! The part of OpenXRT's C API (include/xrt/xrt.h) that the example needs, made safe: handles free
//! themselves, errors are `Result`s.
use std::ffi::{CStr, CString};
use std::fmt;
use std::os::raw::{c_char, c_void};
use std::ptr;

mod c {
    use super::{c_char, c_void};

    #[repr(C)]
    pub struct Tensor {
        pub size: usize,
        pub dtype: i32,
        pub dims: *const i64,
        pub rank: usize,
        pub data: *mut c_void,
        pub bytes: usize,
        pub device: *const c_char,
        pub release: Option<extern "C" fn(*mut c_void)>,
        pub context: *mut c_void,
    }

    #[repr(C)]
    pub struct Port {
        pub size: usize,
        pub name: *const c_char,
        pub type_text: *const c_char,
        pub kind: i32,
        pub dtype: i32,
        pub rank: i64,
        pub dims: *const i64,
        pub symbols: *const *const c_char,
        pub has_default: i32,
    }

    pub enum Status {}
    pub enum Options {}
    pub enum Program {}
    pub enum Value {}

    pub const OK: i32 = 0;
    pub const FLOAT32: i32 = 1;

    #[link(name = "xrt")]
    extern "C" {
        pub fn xrt_version() -> *const c_char;
        pub fn xrt_status_message(status: *const Status) -> *const c_char;
        pub fn xrt_status_free(status: *mut Status);
        pub fn xrt_code_name(code: i32) -> *const c_char;
        pub fn xrt_text_free(text: *mut c_char);
        pub fn xrt_options_create(options: *mut *mut Options, status: *mut *mut Status) -> i32;
        pub fn xrt_options_free(options: *mut Options);
        pub fn xrt_options_set(
            options: *mut Options,
            name: *const c_char,
            value: *const c_char,
            status: *mut *mut Status,
        ) -> i32;
        pub fn xrt_program_load(
            path: *const c_char,
            options: *const Options,
            program: *mut *mut Program,
            status: *mut *mut Status,
        ) -> i32;
        pub fn xrt_program_free(program: *mut Program);
        pub fn xrt_program_input_count(program: *const Program) -> usize;
        pub fn xrt_program_output_count(program: *const Program) -> usize;
        pub fn xrt_program_input(
            program: *const Program,
            index: usize,
            port: *mut Port,
            status: *mut *mut Status,
        ) -> i32;
        pub fn xrt_program_run(
            program: *mut Program,
            inputs: *const *const Value,
            input_count: usize,
            outputs: *mut *mut Value,
            output_count: usize,
            options: *const c_void,
            status: *mut *mut Status,
        ) -> i32;
        pub fn xrt_program_explain_json(
            program: *mut Program,
            json: *mut *mut c_char,
            status: *mut *mut Status,
        ) -> i32;
        pub fn xrt_value_wrap(
            tensor: *const Tensor,
            value: *mut *mut Value,
            status: *mut *mut Status,
        ) -> i32;
        pub fn xrt_value_free(value: *mut Value);
        pub fn xrt_value_dtype(value: *const Value) -> i32;
        pub fn xrt_value_count(value: *const Value) -> usize;
        pub fn xrt_value_data(value: *const Value) -> *mut c_void;
    }
}

/// What a call failed with: the code's name and a sentence.
#[derive(Debug)]
pub struct Error {
    pub code: String,
    pub message: String,
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.code, self.message)
    }
}

impl std::error::Error for Error {}

fn text(pointer: *const c_char) -> String {
    unsafe { CStr::from_ptr(pointer) }
        .to_string_lossy()
        .into_owned()
}

/// Runs a call that takes a status.
fn checked(call: impl FnOnce(*mut *mut c::Status) -> i32) -> Result<(), Error> {
    let mut status = ptr::null_mut();
    let code = call(&mut status);
    if code == c::OK {
        return Ok(());
    }
    let (code, message) = unsafe {
        (
            text(c::xrt_code_name(code)),
            text(c::xrt_status_message(status)),
        )
    };
    unsafe { c::xrt_status_free(status) };
    Err(Error { code, message })
}

fn c_text(text: &str) -> Result<CString, Error> {
    CString::new(text).map_err(|error| Error {
        code: "invalid_argument".into(),
        message: format!("{:?}: {}", text, error),
    })
}

pub fn version() -> String {
    text(unsafe { c::xrt_version() })
}

/// A value of the library; freed when it goes.
struct Value(*mut c::Value);

impl Drop for Value {
    fn drop(&mut self) {
        unsafe { c::xrt_value_free(self.0) }
    }
}

/// A loaded program. Its functions may be called by many threads at once.
pub struct Program(*mut c::Program);

unsafe impl Send for Program {}
unsafe impl Sync for Program {}

impl Drop for Program {
    fn drop(&mut self) {
        unsafe { c::xrt_program_free(self.0) }
    }
}

impl Program {
    /// Loads a model; `options` are names and values of xrt_options_set().
    pub fn load(path: &str, options: &[(&str, &str)]) -> Result<Program, Error> {
        struct Options(*mut c::Options);
        impl Drop for Options {
            fn drop(&mut self) {
                unsafe { c::xrt_options_free(self.0) }
            }
        }
        let mut given = Options(ptr::null_mut());
        checked(|status| unsafe { c::xrt_options_create(&mut given.0, status) })?;
        for (name, value) in options {
            let (name, value) = (c_text(name)?, c_text(value)?);
            checked(|status| unsafe {
                c::xrt_options_set(given.0, name.as_ptr(), value.as_ptr(), status)
            })?;
        }
        let path = c_text(path)?;
        let mut program = ptr::null_mut();
        checked(|status| unsafe {
            c::xrt_program_load(path.as_ptr(), given.0, &mut program, status)
        })?;
        Ok(Program(program))
    }

    /// Name, type and dimensions (-1: not known before a run) of every input.
    pub fn inputs(&self) -> Result<Vec<(String, String, Vec<i64>)>, Error> {
        let count = unsafe { c::xrt_program_input_count(self.0) };
        let mut inputs = Vec::new();
        for index in 0..count {
            let mut port = c::Port {
                size: std::mem::size_of::<c::Port>(),
                name: ptr::null(),
                type_text: ptr::null(),
                kind: 0,
                dtype: 0,
                rank: 0,
                dims: ptr::null(),
                symbols: ptr::null(),
                has_default: 0,
            };
            checked(|status| unsafe { c::xrt_program_input(self.0, index, &mut port, status) })?;
            let mut dims = Vec::new();
            for d in 0..port.rank.max(0) as usize {
                dims.push(unsafe { *port.dims.add(d) });
            }
            inputs.push((text(port.name), text(port.type_text), dims));
        }
        Ok(inputs)
    }

    /// Runs a program of float32 tensors; the outputs' elements come back.
    pub fn run(&self, inputs: &[(&[f32], &[i64])]) -> Result<Vec<Vec<f32>>, Error> {
        let mut values = Vec::new();
        for (data, dims) in inputs {
            let tensor = c::Tensor {
                size: std::mem::size_of::<c::Tensor>(),
                dtype: c::FLOAT32,
                dims: dims.as_ptr(),
                rank: dims.len(),
                // An input is only read; it is borrowed until the run has ended.
                data: data.as_ptr() as *mut c_void,
                bytes: std::mem::size_of_val(*data),
                device: ptr::null(),
                release: None,
                context: ptr::null_mut(),
            };
            let mut value = Value(ptr::null_mut());
            checked(|status| unsafe { c::xrt_value_wrap(&tensor, &mut value.0, status) })?;
            values.push(value);
        }
        let given: Vec<*const c::Value> = values.iter().map(|v| v.0 as *const c::Value).collect();
        let count = unsafe { c::xrt_program_output_count(self.0) };
        let mut made = vec![ptr::null_mut(); count];
        checked(|status| unsafe {
            c::xrt_program_run(
                self.0,
                given.as_ptr(),
                given.len(),
                made.as_mut_ptr(),
                count,
                ptr::null(),
                status,
            )
        })?;
        let made: Vec<Value> = made.into_iter().map(Value).collect();
        let mut outputs = Vec::new();
        for value in &made {
            if unsafe { c::xrt_value_dtype(value.0) } != c::FLOAT32 {
                return Err(Error {
                    code: "unsupported".into(),
                    message: "an output is not float32".into(),
                });
            }
            let length = unsafe { c::xrt_value_count(value.0) };
            let data = unsafe { c::xrt_value_data(value.0) } as *const f32;
            outputs.push((0..length).map(|i| unsafe { *data.add(i) }).collect());
        }
        Ok(outputs)
    }

    /// Which engine runs which node and why, as JSON.
    pub fn explain(&self) -> Result<String, Error> {
        let mut json = ptr::null_mut();
        checked(|status| unsafe { c::xrt_program_explain_json(self.0, &mut json, status) })?;
        let explanation = text(json);
        unsafe { c::xrt_text_free(json) };
        Ok(explanation)
    }
}
