/* SPDX-License-Identifier: Apache-2.0
 *
 * The border between OpenXRT and an engine's library: tables of C functions.
 *
 * Authors of engines write C++ against xrt/engine.h, a header-only layer over this one. This header
 * is for those who write in another language, and for who wants to know what crosses the border.
 *
 * A library exports one function, XRT_ENGINE_ENTRY. It is given the host's table and fills in its
 * own.
 *
 * Versions. A library built against 1.0 loads in every 1.x, whatever compiler made it:
 * - every struct begins with its size as its maker knew it. What lies beyond that size is absent,
 * and its reader takes the default that is documented for it; what lies beyond the reader's own
 * size is ignored. New members are added at the end, and only where their absence has a meaning.
 * - arrays of structs are arrays of pointers, so that each element has its own size.
 * - enumerators are never renumbered.
 *
 * Texts are UTF-8 with a length, and need not end in a zero. What a function gives out belongs to
 * who gives it, and is valid until the call in which it was given out returns, unless said
 * otherwise.
 *
 * Functions that can fail return an xrt_engine_status and tell the cause through host->fail(). No
 * exception crosses the border.
 *
 * Thread-safety: an engine and an executable may be called by any number of threads at once; a
 * context by one at a time. The host's functions may be called by any thread.
 */
#ifndef XRT_ENGINE_C_H_
#define XRT_ENGINE_C_H_

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define XRT_ENGINE_VERSION_MAJOR 1
#define XRT_ENGINE_VERSION_MINOR 1
#define XRT_ENGINE_ENTRY "xrt_engine_entry"

typedef struct {
  const char* data;
  size_t size;
} xrt_engine_text;

/* What the host owns and only its functions can read. */
typedef struct xrt_engine_graph xrt_engine_graph;
typedef struct xrt_engine_type xrt_engine_type;
typedef struct xrt_engine_tensor xrt_engine_tensor;
typedef struct xrt_engine_answers xrt_engine_answers;
typedef struct xrt_engine_error xrt_engine_error;
typedef struct xrt_engine_run xrt_engine_run; /* inputs and outputs of one run */

/* Takes bytes: any number of calls, one after the other. */
typedef struct {
  void* self;
  void (*write)(void* self, const void* data, size_t size);
} xrt_engine_writer;

/* 0 is success; the others are the codes of xrt/error.h, plus one. */
typedef int32_t xrt_engine_status;

/* --- graphs, as engines see them
 * ------------------------------------------------------------------ */

typedef struct {
  size_t size;
  xrt_engine_text name, domain, op;
  const int32_t* inputs; /* values; -1 where an optional one is left out */
  size_t input_count;
  const int32_t* outputs; /* likewise */
  size_t output_count;
  size_t attribute_count;
} xrt_engine_node;

enum {
  XRT_ENGINE_ORIGIN_INPUT,
  XRT_ENGINE_ORIGIN_CONSTANT,
  XRT_ENGINE_ORIGIN_CAPTURE,
  XRT_ENGINE_ORIGIN_NODE
};

typedef struct {
  size_t size;
  xrt_engine_text name;
  const xrt_engine_type* type;
  const xrt_engine_tensor* constant; /* null unless it is one */
  int32_t origin;                    /* XRT_ENGINE_ORIGIN_... */
  int32_t producer;                  /* the node, or -1 */
  int32_t output_index;              /* of the producer */
} xrt_engine_value;

typedef struct {
  int32_t node;
  int32_t index; /* position among the node's inputs; -1: a sub-graph of the node captures it */
} xrt_engine_use;

enum {
  XRT_ENGINE_TYPE_TENSOR,
  XRT_ENGINE_TYPE_SEQUENCE,
  XRT_ENGINE_TYPE_OPTIONAL,
  XRT_ENGINE_TYPE_MAP,
  XRT_ENGINE_TYPE_SPARSE_TENSOR
};

typedef struct {
  size_t size;
  int32_t kind;  /* XRT_ENGINE_TYPE_... */
  int32_t dtype; /* of a tensor's elements or a map's keys, by ONNX's numbers */
  int32_t has_rank;
  size_t rank;
  const xrt_engine_type* element; /* of a sequence, an optional, a map */
} xrt_engine_type_info;

typedef struct {
  size_t size;
  void* data;    /* dense, row-major; null for strings. An address on the device that is named */
  size_t bytes;  /* packed types are rounded up to a whole byte */
  int64_t count; /* elements */
  const int64_t* dims;
  size_t rank;
  int32_t dtype;
  int32_t device_kind; /* DLPack's numbers: 1 the host, 2 CUDA */
  int32_t device_ordinal;
} xrt_engine_tensor_info;

enum {
  XRT_ENGINE_ATTRIBUTE_INT,
  XRT_ENGINE_ATTRIBUTE_FLOAT,
  XRT_ENGINE_ATTRIBUTE_STRING,
  XRT_ENGINE_ATTRIBUTE_TENSOR,
  XRT_ENGINE_ATTRIBUTE_GRAPH,
  XRT_ENGINE_ATTRIBUTE_TYPE,
  XRT_ENGINE_ATTRIBUTE_INTS,
  XRT_ENGINE_ATTRIBUTE_FLOATS,
  XRT_ENGINE_ATTRIBUTE_STRINGS,
  XRT_ENGINE_ATTRIBUTE_TENSORS,
  XRT_ENGINE_ATTRIBUTE_GRAPHS,
  XRT_ENGINE_ATTRIBUTE_TYPES
};

typedef struct {
  size_t size;
  xrt_engine_text name;
  int32_t kind; /* XRT_ENGINE_ATTRIBUTE_... */
  int64_t i;
  float f;
  xrt_engine_text text;
  const int64_t* ints;
  const float* floats;
  size_t count; /* of the list kinds; 1 of the others */
  /* Of the kinds that hold tensors, graphs and types: the first one; others by attribute_item(). */
  const xrt_engine_tensor* tensor;
  const xrt_engine_graph* graph;
  const xrt_engine_type* type;
} xrt_engine_attribute;

enum { XRT_ENGINE_PHASE_INFERENCE, XRT_ENGINE_PHASE_TRAINING };
enum { XRT_ENGINE_F32, XRT_ENGINE_TF32, XRT_ENGINE_BF16, XRT_ENGINE_F16 };
enum { XRT_ENGINE_DATA_NONE, XRT_ENGINE_DATA_TENSOR, XRT_ENGINE_DATA_SEQUENCE };

/* An output that is to be written into the memory of an input: how state is updated in place. */
typedef struct {
  int32_t input;  /* position among the function's inputs */
  int32_t output; /* position among its outputs */
} xrt_engine_alias;

/* --- what the host offers
 * ------------------------------------------------------------------------- */

typedef struct {
  size_t size;
  int32_t major, minor; /* of this interface */

  /* Tells the cause of a failure and gives back the status to return. `code` as in
   * xrt_engine_status. */
  xrt_engine_status (*fail)(xrt_engine_error* error, xrt_engine_status code,
                            xrt_engine_text message);
  /* 0 debug, 1 info, 2 warning, 3 error */
  void (*log)(int32_t level, xrt_engine_text message);

  /* Graphs. Node and value ids are below the capacities; those that are not alive have no name. */
  xrt_engine_text (*graph_name)(const xrt_engine_graph* graph);
  size_t (*node_capacity)(const xrt_engine_graph* graph);
  size_t (*value_capacity)(const xrt_engine_graph* graph);
  /* Live nodes in a topological order that is always the same. Writes up to `capacity` ids; returns
   * how many there are. The same of constants and uses. */
  size_t (*graph_nodes)(const xrt_engine_graph* graph, int32_t* ids, size_t capacity);
  size_t (*graph_constants)(const xrt_engine_graph* graph, int32_t* ids, size_t capacity);
  size_t (*value_uses)(const xrt_engine_graph* graph, int32_t value, xrt_engine_use* uses,
                       size_t capacity);
  const int32_t* (*graph_inputs)(const xrt_engine_graph* graph, size_t* count);
  const int32_t* (*graph_outputs)(const xrt_engine_graph* graph, size_t* count);
  /* The caller sets `size`. */
  void (*read_node)(const xrt_engine_graph* graph, int32_t node, xrt_engine_node* to);
  void (*read_value)(const xrt_engine_graph* graph, int32_t value, xrt_engine_value* to);
  int32_t (*value_is_output)(const xrt_engine_graph* graph, int32_t value);
  /* By position, in the order of the names; by name: 0 where there is none. */
  void (*read_attribute)(const xrt_engine_graph* graph, int32_t node, size_t index,
                         xrt_engine_attribute* to);
  int32_t (*find_attribute)(const xrt_engine_graph* graph, int32_t node, xrt_engine_text name,
                            xrt_engine_attribute* to);
  /* The `item`-th of an attribute that is a list of texts, tensors, graphs or types: fills in text,
   * tensor, graph or type. */
  void (*read_attribute_item)(const xrt_engine_graph* graph, int32_t node, xrt_engine_text name,
                              size_t item, xrt_engine_attribute* to);

  void (*read_type)(const xrt_engine_type* type, xrt_engine_type_info* to);
  /* A dimension: its number, or -1 and its symbol, which may be empty. */
  int64_t (*type_dim)(const xrt_engine_type* type, size_t axis, xrt_engine_text* symbol);

  void (*read_tensor)(const xrt_engine_tensor* tensor, xrt_engine_tensor_info* to);
  xrt_engine_text (*tensor_string)(const xrt_engine_tensor* tensor, size_t index);
  /* A handle of one's own to the same memory, valid until it is released. */
  xrt_engine_tensor* (*retain_tensor)(const xrt_engine_tensor* tensor);
  void (*release_tensor)(xrt_engine_tensor* tensor);

  /* supports_all(): the answer for one node. A no has a reason. */
  void (*answer)(xrt_engine_answers* answers, int32_t node, int32_t yes, xrt_engine_text reason);

  /* The function as a serialised ONNX ModelProto at the pinned opset. Constants of more than
   * `inline_limit` bytes are external data whose offset is the address of the tensor's memory.
   * Where it fails, what is written is the cause. */
  xrt_engine_status (*function_onnx)(const void* onnx, size_t inline_limit, xrt_engine_writer to);
  /* Compilations that take seconds call this now and then. Not 0: stop, and return a failure. */
  int32_t (*progress)(const void* progress, xrt_engine_text what, double part);

  /* Runs. Input i: its kind; its tensor, or null. */
  size_t (*input_count)(const xrt_engine_run* run);
  size_t (*output_count)(const xrt_engine_run* run);
  int32_t (*input_kind)(const xrt_engine_run* run, size_t index);
  const xrt_engine_tensor* (*input)(const xrt_engine_run* run, size_t index);
  /* The memory that output i must be written into, or null: then the engine gives it by one of the
   * next two. */
  const xrt_engine_tensor* (*output)(const xrt_engine_run* run, size_t index);
  /* Memory of the host's for output i, 64-byte aligned; null where there is none left. */
  void* (*allocate_output)(xrt_engine_run* run, size_t index, int32_t dtype, const int64_t* dims,
                           size_t rank);
  /* Memory of the engine's as output i; release(owner) is called when nobody needs it any more. */
  void (*give_output)(xrt_engine_run* run, size_t index, int32_t dtype, const int64_t* dims,
                      size_t rank, void* data, int32_t device_kind, int32_t device_ordinal,
                      void* owner, void (*release)(void* owner));
  void (*set_output_string)(xrt_engine_run* run, size_t index, size_t element,
                            xrt_engine_text text);
  /* Whether output i, which is null, is to be given on the executable's device; else on the host.
   */
  int32_t (*output_on_device)(const xrt_engine_run* run, size_t index);
  /* A stream of the device's kind (a CUstream), or null: see xrt_engine_executable_info. */
  void* (*stream)(const xrt_engine_run* run);

  /* Since 1.1. Not 0: the caller of this run has given up; stop where that can be done, and return
   * a failure. May be called by any thread of the run. */
  int32_t (*cancelled)(const xrt_engine_run* run);
} xrt_engine_host;

/* --- what an engine offers
 * ------------------------------------------------------------------------ */

typedef struct {
  size_t size;
  xrt_engine_text name;      /* "cpu", "cuda:0", … */
  const int32_t* precisions; /* XRT_ENGINE_F32, …: what it can compute float32 in */
  size_t precision_count;    /* 0: float32 alone */
  int32_t asynchronous;      /* its executables follow streams */
} xrt_engine_device_info;

enum {
  XRT_ENGINE_OPTION_TEXT,
  XRT_ENGINE_OPTION_BOOL,
  XRT_ENGINE_OPTION_INT,
  XRT_ENGINE_OPTION_NUMBER
};

typedef struct {
  size_t size;
  xrt_engine_text name;
  int32_t kind; /* XRT_ENGINE_OPTION_... */
  xrt_engine_text default_value;
  xrt_engine_text help; /* one line */
} xrt_engine_option;

enum { XRT_ENGINE_SHAPES_STATIC, XRT_ENGINE_SHAPES_ANY };

typedef struct {
  size_t size;
  xrt_engine_text
      name; /* letters, digits, '_', '-', '.'; that of the file libxrt_engine_<name>.so */
  xrt_engine_text version;  /* of the library behind the engine; part of every cache key */
  xrt_engine_text location; /* where that library was found; may be empty */
  const xrt_engine_device_info* const* devices;
  size_t device_count;
  const xrt_engine_option* const* options;
  size_t option_count;
  int32_t checks_options; /* not 0: compile() judges names that are not among `options` */
  int32_t shapes;         /* XRT_ENGINE_SHAPES_... */
  int32_t in_place;       /* functions may have aliases */
  int32_t self_contained; /* load() takes all elements of constants from the blob */
  int32_t checks_indices; /* indices out of range are errors of its executables */
  /* Options with which compile() works for a device that this machine does not have; may be empty.
   */
  const xrt_engine_text* offline_options; /* "name=value" */
  size_t offline_option_count;
  /* Files whose change makes it another engine, where it is not a library; may be empty. */
  const xrt_engine_text* files;
  size_t file_count;
  /* Not empty: it is built with the C++ library of OpenXRT, and loads in that version alone. */
  xrt_engine_text core_version;
} xrt_engine_info;

/* One node, or with node -1 all nodes of a graph. */
typedef struct {
  size_t size;
  const xrt_engine_graph* graph;
  int32_t node;
  xrt_engine_text device;
  int32_t phase; /* XRT_ENGINE_PHASE_... */
  /* Positions of the node's inputs whose memory one of the program's outputs is written into. */
  const int32_t* mutable_inputs;
  size_t mutable_input_count;
} xrt_engine_query;

typedef struct {
  size_t size;
  xrt_engine_text name;
  const xrt_engine_graph* graph;
  const xrt_engine_alias* aliases; /* none unless the engine works in place */
  size_t alias_count;
  const void* onnx; /* for host->function_onnx() */
} xrt_engine_function;

/* The sizes that a dimension of the function's inputs is to be built for. */
typedef struct {
  size_t size;
  xrt_engine_text symbol; /* as type_dim() gives it */
  int64_t least, usual, most;
} xrt_engine_size_range;

typedef struct {
  size_t size;
  xrt_engine_text device;
  int32_t precision; /* XRT_ENGINE_F32, …: one that the device's info lists */
  int32_t phase;
  int32_t num_threads;         /* of one run: a share of the process's one thread budget */
  size_t max_workspace_bytes;  /* scratch memory of one run; 0: no limit */
  int64_t max_batch_size;      /* the largest first dimension to build for; 0: as declared */
  xrt_engine_text records_dir; /* where the engine may keep records of its own; empty: nowhere */
  const xrt_engine_text* option_names;
  const xrt_engine_text* option_values;
  size_t option_count;
  const void* progress; /* for host->progress() */
  /* Since 1.1. Of symbols that a range is known for. */
  const xrt_engine_size_range* const* ranges;
  size_t range_count;
  /* Since 1.1. Runs at once that the executable is for, num_threads each. */
  int32_t streams;
} xrt_engine_compile_options;

typedef struct {
  size_t size;
  int32_t workspace_known; /* 0: the library does not tell how much scratch memory a run takes */
  size_t workspace_bytes;  /* scratch memory of one run */
  size_t weight_bytes;     /* of weights that the executable holds for itself */
  int32_t threads;         /* that compute during a run on the CPU, the caller's included */
  const void* pool;     /* runs that name the same pool share its threads; null: each has its own */
  int32_t runs_at_once; /* in the pool; 0: as many as it has threads */
  int32_t device_kind;  /* where inputs may lie beside the host, and results on demand */
  int32_t device_ordinal;
  /* Not 0: a run that is given a stream begins when what is queued there is done, and may return
   * before its outputs are written; what is queued there afterwards finds them so. */
  int32_t follows_stream;
  const xrt_engine_text* remarks; /* sentences for explanations, without capital and full stop */
  size_t remark_count;
} xrt_engine_executable_info;

typedef struct {
  size_t size;
  /* Valid while the executable lives. */
  const xrt_engine_executable_info* (*info)(const void* executable);
  /* What one run at a time needs for itself; may give null. */
  xrt_engine_status (*create_context)(const void* executable, void** context,
                                      xrt_engine_error* error);
  void (*destroy_context)(void* context);
  xrt_engine_status (*run)(const void* executable, void* context, xrt_engine_run* run,
                           xrt_engine_error* error);
  /* A blob that load() of the same engine version on the same kind of machine takes. `can` 0: none.
   */
  xrt_engine_status (*serialize)(const void* executable, xrt_engine_writer to, int32_t* can,
                                 xrt_engine_error* error);
  void (*destroy)(const void* executable);
} xrt_engine_executable_functions;

typedef struct {
  const xrt_engine_executable_functions* functions;
  const void* self;
} xrt_engine_executable;

typedef struct {
  size_t size;
  /* Valid while the engine lives. */
  const xrt_engine_info* (*info)(const void* engine);
  /* Answers through host->answer(): for query->node, or for all nodes where that is -1. */
  xrt_engine_status (*supports)(const void* engine, const xrt_engine_query* query,
                                xrt_engine_answers* answers, xrt_engine_error* error);
  xrt_engine_status (*compile)(const void* engine, const xrt_engine_function* function,
                               const xrt_engine_compile_options* options,
                               xrt_engine_executable* executable, xrt_engine_error* error);
  /* From a blob of serialize(): uint8, aligned to 64 bytes, read-only. May be retained. */
  xrt_engine_status (*load)(const void* engine, const xrt_engine_tensor* blob,
                            const xrt_engine_function* function,
                            const xrt_engine_compile_options* options,
                            xrt_engine_executable* executable, xrt_engine_error* error);
  /* Ops with a lowering, qualified names, sorted; for tables, not for decisions. */
  xrt_engine_status (*ops)(const void* engine, void* to, void (*add)(void* to, xrt_engine_text op),
                           xrt_engine_error* error);
  void (*destroy)(const void* engine);
} xrt_engine_functions;

/* The library's engine; `size` is that of this struct as the host knows it. */
typedef struct {
  size_t size;
  int32_t major, minor; /* of the interface that the library was built for */
  const xrt_engine_functions* functions;
  const void* self;
} xrt_engine_library;

/* extern "C" xrt_engine_status xrt_engine_entry(const xrt_engine_host*, xrt_engine_library*,
 * xrt_engine_error*); `library->size` is set; everything else is for the engine to fill in. The
 * host lives as long as the process, and so does the library: it is never closed. */
typedef xrt_engine_status (*xrt_engine_entry_function)(const xrt_engine_host* host,
                                                       xrt_engine_library* library,
                                                       xrt_engine_error* error);

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* XRT_ENGINE_C_H_ */
