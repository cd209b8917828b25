//! A function of a package with the meaning of its arguments.

use super::On;
use super::operations::{Bindable, Number};
use crate::near::unknown;
use kernels_packages::binding::{self, Constant, Part, Workspace};
use kernels_packages::{Argument, Callable, Error, Function, Returned, Tensor};
use smallvec::SmallVec;
use std::ffi::{CString, c_void};
use std::ptr::NonNull;

/// The name of the result.
const RESULT: &str = "y";

/// A function with its arguments.
pub(super) struct Call {
    function: Function,
    arguments: Vec<Slot>,
    #[cfg_attr(not(feature = "npu"), allow(dead_code))] // CPUs have no workspaces.
    room: Room,
}

/// The number of bytes of an NPU's memory that a function needs besides its tensors.
#[derive(Debug)]
#[cfg_attr(not(feature = "npu"), allow(dead_code))]
enum Room {
    Bytes(usize),
    /// The number that this function returns.
    Asked(Function),
}

/// The handles of a call on an NPU. Null on a CPU.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Handles {
    pub(super) stream: Option<NonNull<c_void>>,
    pub(super) workspace: Option<NonNull<c_void>>,
}

/// An argument. A number is the place of a tensor or number among those that the operation declares.
#[derive(Debug, PartialEq)]
pub(super) enum Slot {
    Tensor(usize),
    Number(usize),
    Result,
    Saved(usize),
    Gradient,
    GradientOf(usize),
    Null,
    Bool(bool),
    Int(i64),
    Float(f64),
    Text(CString),
    Stream,
    Workspace,
}

/// The tensors and numbers of one call, by their places.
#[derive(Default)]
pub(super) struct Given<'a> {
    pub(super) tensors: SmallVec<[Option<Tensor<'a>>; 5]>,
    pub(super) numbers: SmallVec<[Number; 2]>,
    pub(super) result: Option<Tensor<'a>>,
    pub(super) saved: SmallVec<[Tensor<'a>; 2]>,
    /// The gradient of the result.
    pub(super) gradient: Option<Tensor<'a>>,
    /// The wanted gradients of the tensors.
    pub(super) gradients: SmallVec<[Option<Tensor<'a>>; 5]>,
}

impl Call {
    /// Looks up the arguments of a function among what the operation declares.
    ///
    /// # Errors
    /// Returns an error if the operation has no such tensor or number.
    pub(super) fn of<O: Bindable>(
        call: &binding::Call,
        callable: &Callable,
        on: On,
    ) -> Result<Self, String> {
        let arguments = call.arguments.iter().map(|part| slot::<O>(part, on));
        let arguments = arguments
            .collect::<Result<_, _>>()
            .map_err(|problem| format!("the arguments of `{}`: {problem}", call.symbol))?;
        let room = match (&call.workspace, callable.workspace) {
            (Some(Workspace::Bytes(bytes)), _) => {
                let bytes = usize::try_from(*bytes);
                Room::Bytes(bytes.map_err(|_| "the workspace is too large".to_owned())?)
            }
            (_, Some(function)) => Room::Asked(function),
            _ => Room::Bytes(0),
        };
        Ok(Self {
            function: callable.function,
            arguments,
            room,
        })
    }

    /// Returns `true` if the function has the argument.
    pub(super) fn has(&self, slot: &Slot) -> bool {
        self.arguments.contains(slot)
    }

    /// Returns the name of the function.
    pub(super) fn name(&self) -> &'static str {
        self.function.name()
    }

    /// Calls the function.
    ///
    /// # Panics
    /// Panics with the function's message if it fails.
    pub(super) fn run(&self, given: &Given<'_>) {
        if let Err(error) = self.run_with(given, Handles::default()) {
            panic!("{error}");
        }
    }

    /// Calls the function with the handles of a call on an NPU.
    ///
    /// # Errors
    /// Returns the function's error.
    pub(super) fn run_with(&self, given: &Given<'_>, handles: Handles) -> Result<(), Error> {
        let arguments = self.arguments.iter();
        let arguments = arguments.map(|slot| given.argument(slot, handles));
        call(self.function, arguments).map(|_| ())
    }

    /// Returns the bytes of memory that the function wants besides its tensors.
    ///
    /// # Errors
    /// Returns an error if the function that computes this number fails.
    #[cfg(feature = "npu")]
    pub(super) fn room(&self, given: &Given<'_>) -> Result<usize, String> {
        let function = match &self.room {
            Room::Bytes(bytes) => return Ok(*bytes),
            Room::Asked(function) => *function,
        };
        let is_known = |slot: &&Slot| !matches!(slot, Slot::Stream | Slot::Workspace);
        let arguments = self.arguments.iter().filter(is_known);
        let arguments = arguments.map(|slot| given.argument(slot, Handles::default()));
        match call(function, arguments).map_err(|error| error.to_string())? {
            Returned::Int(bytes) => usize::try_from(bytes).map_err(|_| bytes.to_string()),
            other => Err(format!("{other:?}")),
        }
        .map_err(|found| {
            let (name, package) = (function.name(), function.package());
            format!("{name} of {package} returned {found} in place of a number of bytes")
        })
    }
}

fn call<'a>(
    function: Function,
    arguments: impl Iterator<Item = Argument<'a>>,
) -> Result<Returned, Error> {
    let arguments: SmallVec<[Argument<'_>; 16]> = arguments.collect();
    // SAFETY: the arguments are those of the binding, in its order: contiguous tensors of a call that the operation has
    // checked, of the dtypes and semantics of the binding, and null for absent tensors and unwanted gradients.
    // `Package::load` demands that the function is correct for them, of any rank, on any thread and on several threads
    // at once. `Given` lends the tensors that functions write as writable memory. On an NPU, the tensors and the
    // workspace are reused only behind the work on the stream.
    unsafe { function.call(&arguments) }
}

impl Given<'_> {
    fn argument<'a>(&'a self, slot: &'a Slot, handles: Handles) -> Argument<'a> {
        let pointer = |handle: Option<NonNull<c_void>>| {
            handle.map_or(Argument::Null, |handle| Argument::Pointer(handle.as_ptr()))
        };
        let tensor =
            |tensor: Option<&'a Tensor<'a>>| tensor.map_or(Argument::Null, Argument::Tensor);
        let at = |tensors: &'a [Option<Tensor<'a>>], place: usize| {
            tensor(tensors.get(place).and_then(Option::as_ref))
        };
        match slot {
            Slot::Tensor(place) => at(&self.tensors, *place),
            Slot::Number(place) => match self.numbers[*place] {
                Number::Absent => Argument::Null,
                Number::Int(number) => Argument::Int(number),
                Number::Float(number) => Argument::Float(number),
            },
            Slot::Result => tensor(self.result.as_ref()),
            Slot::Saved(place) => tensor(self.saved.get(*place)),
            Slot::Gradient => tensor(self.gradient.as_ref()),
            Slot::GradientOf(place) => at(&self.gradients, *place),
            Slot::Null => Argument::Null,
            Slot::Bool(value) => Argument::Bool(*value),
            Slot::Int(value) => Argument::Int(*value),
            Slot::Float(value) => Argument::Float(*value),
            Slot::Text(text) => Argument::Text(text),
            Slot::Stream => pointer(handles.stream),
            Slot::Workspace => pointer(handles.workspace),
        }
    }
}

/// Returns the argument that a part of a binding means.
fn slot<O: Bindable>(part: &Part, on: On) -> Result<Slot, String> {
    let place = |what: &str, name: &str, known: &[&str]| {
        let place = known.iter().position(|known| *known == name);
        place.ok_or_else(|| {
            unknown(
                &format!("{what} of {}", O::NAME),
                name,
                known.iter().copied(),
            )
        })
    };
    Ok(match part {
        Part::Tensor(name) => Slot::Tensor(place("tensor", name, O::TENSORS)?),
        Part::GradientOf(name) => Slot::GradientOf(place("tensor", name, O::TENSORS)?),
        Part::Number(name) => Slot::Number(place("number", name, O::NUMBERS)?),
        Part::Saved(name) => Slot::Saved(place("saved tensor", name, O::KEPT)?),
        Part::Result(name) => {
            place("result", name, &[RESULT])?;
            Slot::Result
        }
        Part::Gradient(name) => {
            place("result", name, &[RESULT])?;
            Slot::Gradient
        }
        Part::Constant(constant) => of_constant(constant)?,
        Part::Stream | Part::Workspace if on == On::Cpu => {
            return Err("streams and workspaces are those of NPUs, and this is a CPU's".into());
        }
        Part::Stream => Slot::Stream,
        Part::Workspace => Slot::Workspace,
    })
}

fn of_constant(constant: &Constant) -> Result<Slot, String> {
    Ok(match constant {
        Constant::Null => Slot::Null,
        Constant::Bool(value) => Slot::Bool(*value),
        Constant::Int(value) => Slot::Int(*value),
        Constant::Float(value) => Slot::Float(*value),
        Constant::Text(text) => {
            let text = CString::new(text.as_str());
            Slot::Text(text.map_err(|_| "a text has a zero in it".to_owned())?)
        }
    })
}
