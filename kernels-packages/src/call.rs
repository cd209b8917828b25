//! Calls of functions.

use crate::error::Error;
use crate::runtime;
use crate::tensor::Tensor;
use kernels_abi::{Any, DlTensor, SafeCall, Value, types};
use kernels_io::escape;
use smallvec::SmallVec;
use std::collections::BTreeSet;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::fmt;
use std::sync::Mutex;

/// An argument of a call.
#[derive(Clone, Copy, Debug)]
pub enum Argument<'a> {
    /// Nothing: an absent tensor or number.
    Null,
    /// A tensor, which the function borrows for the call.
    Tensor(&'a Tensor<'a>),
    /// An integer.
    Int(i64),
    /// A float.
    Float(f64),
    /// A bool.
    Bool(bool),
    /// Text.
    Text(&'a CStr),
    /// A pointer that caller and function know, such as the stream of an NPU.
    Pointer(*mut c_void),
}

/// The result of a function.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Returned {
    /// Nothing.
    Nothing,
    /// An integer.
    Int(i64),
    /// A float.
    Float(f64),
    /// A bool.
    Bool(bool),
    /// Something else of this type of TVM-FFI. An object was released.
    Other(i32),
}

/// Returns the message of the last failure of the thread, an optional symbol of a library: `burn_kernels_error`.
pub(crate) type OwnError = unsafe extern "C" fn() -> *const c_char;

/// A function of a loaded package. It is valid until the program ends, because packages are never unloaded.
#[derive(Clone, Copy)]
pub struct Function {
    pub(crate) name: &'static str,
    pub(crate) package: &'static str,
    pub(crate) call: SafeCall,
    pub(crate) own_error: Option<OwnError>,
}

impl fmt::Debug for Function {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {}", self.name, self.package)
    }
}

impl Function {
    /// Returns the name, escaped.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Returns the package with its version and id, escaped.
    pub fn package(&self) -> &'static str {
        self.package
    }

    /// Calls the function. It allocates nothing for up to 16 arguments and 8 tensors.
    ///
    /// An exception or a panic that leaves the function ends the process.
    ///
    /// # Errors
    /// Returns the function's error with its message.
    ///
    /// # Safety
    /// The arguments must be ones that the function is correct for. Functions ought to return an error for others,
    /// but a function that doesn't check a shape reads or writes past the end of a tensor. In particular:
    /// * the function writes to no tensor that was made from a slice that can't be written;
    /// * pointers are what the function takes them for;
    /// * on an NPU, the memory of the tensors lives until the work on the stream has ended.
    pub unsafe fn call(&self, arguments: &[Argument<'_>]) -> Result<Returned, Error> {
        let mut tensors = SmallVec::<[DlTensor; 8]>::new();
        tensors.extend(arguments.iter().filter_map(|argument| match argument {
            Argument::Tensor(tensor) => Some(tensor.described()),
            _ => None,
        }));
        let mut described = tensors.iter();
        let packed: SmallVec<[Any; 16]> = (arguments.iter())
            .map(|argument| packed(argument, &mut described))
            .collect();
        let mut result = any(types::NONE, Value { integer: 0 });
        let count = i32::try_from(packed.len()).map_err(|_| self.failed("too many arguments"))?;
        // SAFETY: the arguments point to values that live for the call, and the caller says that the function takes
        // them.
        match unsafe { bordered(self.call, packed.as_ptr(), count, &mut result) } {
            0 => self.returned(result),
            code => Err(self.failed(&self.message(code))),
        }
    }

    fn returned(&self, result: Any) -> Result<Returned, Error> {
        // SAFETY: the type says which value it is.
        unsafe {
            Ok(match result.type_index {
                types::NONE => Returned::Nothing,
                types::INT => Returned::Int(result.value.integer),
                types::BOOL => Returned::Bool(result.value.integer != 0),
                types::FLOAT => Returned::Float(result.value.float),
                object if object >= types::OBJECT => {
                    let Some(runtime) = runtime::present() else {
                        return Err(self.failed(&format!(
                            "the function returned an object of TVM-FFI's type {object}, which nothing here can release"
                        )));
                    };
                    runtime.release(result.value.pointer);
                    Returned::Other(object)
                }
                other => Returned::Other(other),
            })
        }
    }

    /// Returns the message of the failure that the call just reported.
    fn message(&self, code: c_int) -> String {
        if let Some(message) = runtime::present().and_then(runtime::Runtime::take_error) {
            return message;
        }
        let own = self.own_error.map(|message| {
            // SAFETY: the function returns null or a string that is valid until the next call of this thread.
            unsafe {
                let message = message();
                (!message.is_null()).then(|| CStr::from_ptr(message).to_string_lossy().into_owned())
            }
        });
        own.flatten()
            .filter(|message| !message.is_empty())
            .unwrap_or_else(|| {
                format!(
                    "the function failed with code {code}. Its message needs {}, which {} can name",
                    crate::elf::RUNTIME,
                    runtime::VARIABLE
                )
            })
    }

    fn failed(&self, problem: &str) -> Error {
        Error::Call {
            function: self.name.into(),
            package: self.package.into(),
            problem: kernels_io::shorten(problem, 4000).into_owned(),
        }
    }
}

fn any(type_index: i32, value: Value) -> Any {
    Any {
        type_index,
        small_length: 0,
        value,
    }
}

fn packed<'a>(argument: &Argument<'_>, tensors: &mut impl Iterator<Item = &'a DlTensor>) -> Any {
    match argument {
        Argument::Null => any(types::NONE, Value { integer: 0 }),
        Argument::Tensor(_) => {
            let tensor = tensors
                .next()
                .expect("one for each tensor of the arguments");
            let pointer = std::ptr::from_ref(tensor).cast();
            any(types::DL_TENSOR, Value { pointer })
        }
        Argument::Int(integer) => any(types::INT, Value { integer: *integer }),
        Argument::Float(float) => any(types::FLOAT, Value { float: *float }),
        Argument::Bool(value) => {
            let integer = i64::from(*value);
            any(types::BOOL, Value { integer })
        }
        Argument::Text(text) => {
            let pointer = text.as_ptr().cast();
            any(types::C_STRING, Value { pointer })
        }
        Argument::Pointer(pointer) => {
            let pointer = pointer.cast_const();
            any(types::POINTER, Value { pointer })
        }
    }
}

/// Calls a function whose exceptions must not come further: this function is one of C, which ends the process then.
///
/// # Safety
/// The arguments must be ones that the function takes.
unsafe extern "C" fn bordered(
    function: SafeCall,
    arguments: *const Any,
    count: i32,
    result: *mut Any,
) -> c_int {
    type Unwinding = unsafe extern "C-unwind" fn(*mut c_void, *const Any, i32, *mut Any) -> c_int;
    // SAFETY: the types differ in whether the function may unwind, which one of C++ may in spite of its type.
    let function = unsafe { std::mem::transmute::<SafeCall, Unwinding>(function) };
    // SAFETY: the caller's.
    unsafe { function(std::ptr::null_mut(), arguments, count, result) }
}

/// Makes text safe to show and lets it live as long as the program, once.
pub(crate) fn kept(text: &str) -> &'static str {
    static KEPT: Mutex<BTreeSet<&'static str>> = Mutex::new(BTreeSet::new());
    let mut all = KEPT.lock().unwrap_or_else(|broken| broken.into_inner());
    let text = escape(text);
    if let Some(same) = all.get(&*text) {
        return same;
    }
    let text = Box::leak(text.into_owned().into_boxed_str());
    all.insert(text);
    text
}
