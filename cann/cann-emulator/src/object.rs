//! Operands of operators, behind handles: tensors, lists, scalars, arrays and executors.
//!
//! A handle is a number that is never used twice. With a destroyed object, CANN would read freed memory; here the call
//! fails.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use cann_sys::meta::*;

use crate::abi::compile::{Attributes, Description};
use crate::error::{Outcome, ensure, fail};
use crate::executor::Executor;
use crate::hccl::Communicator;
use crate::scalar::Scalar;
use crate::stream::Settings;
use crate::tensor::Tensor;

const FIRST_OBJECT: usize = 0x0a00_0000_0000_0000;

#[derive(Clone)]
pub(crate) enum Object {
    Tensor(Arc<Mutex<Tensor>>),
    /// The handles of the list's members.
    TensorList(Arc<[usize]>),
    Scalar(Scalar),
    ScalarList(Arc<[usize]>),
    Ints(Arc<[i64]>),
    Floats(Arc<[f32]>),
    Bools(Arc<[bool]>),
    Executor(Arc<Executor>),
    /// An address and a size.
    Buffer(usize, usize),
    StreamSettings(Settings),
    Communicator(Arc<Communicator>),
    Description(Arc<Mutex<Description>>),
    Attributes(Arc<Attributes>),
}

impl Object {
    fn kind(&self) -> &'static str {
        match self {
            Self::Tensor(_) => "tensor",
            Self::TensorList(_) => "tensor list",
            Self::Scalar(_) => "scalar",
            Self::ScalarList(_) => "scalar list",
            Self::Ints(_) => "int array",
            Self::Floats(_) => "float array",
            Self::Bools(_) => "bool array",
            Self::Executor(_) => "executor",
            Self::Buffer(..) => "data buffer",
            Self::StreamSettings(_) => "configuration of streams",
            Self::Communicator(_) => "communicator",
            Self::Description(_) => "description of a tensor",
            Self::Attributes(_) => "attributes of an operator",
        }
    }
}

#[derive(Default)]
struct Objects {
    made: usize,
    live: HashMap<usize, Object>,
}

static OBJECTS: Mutex<Option<Objects>> = Mutex::new(None);

fn with<T>(work: impl FnOnce(&mut Objects) -> T) -> T {
    let mut objects: MutexGuard<'_, Option<Objects>> =
        OBJECTS.lock().unwrap_or_else(PoisonError::into_inner);
    work(objects.get_or_insert_with(Objects::default))
}

pub(crate) fn insert(object: Object) -> usize {
    with(|objects| {
        objects.made += 1;
        let handle = FIRST_OBJECT + 16 * objects.made;
        objects.live.insert(handle, object);
        handle
    })
}

pub(crate) fn get(handle: usize) -> Option<Object> {
    with(|objects| objects.live.get(&handle).cloned())
}

/// Replaces the object of a handle.
pub(crate) fn replace(handle: usize, object: Object) {
    with(|objects| objects.live.insert(handle, object));
}

pub(crate) fn remove(handle: usize) -> Option<Object> {
    with(|objects| objects.live.remove(&handle))
}

/// Removes everything and returns a description of each object.
pub(crate) fn drain() -> Vec<String> {
    with(|objects| {
        let mut counts: HashMap<&str, usize> = HashMap::new();
        for (_, object) in objects.live.drain() {
            *counts.entry(object.kind()).or_default() += 1;
        }
        let mut lines: Vec<String> = counts
            .into_iter()
            .map(|(kind, count)| format!("{count} of kind {kind} were never destroyed"))
            .collect();
        lines.sort();
        lines
    })
}

/// Defines a function that returns the object of a handle, if it is of the right kind.
macro_rules! getter {
    ($name:ident, $variant:ident, $type:ty, $what:literal) => {
        pub(crate) fn $name(handle: usize) -> Outcome<$type> {
            const INVALID: aclnnStatus = ACLNN_ERR_PARAM_INVALID;
            ensure!(handle != 0, ACLNN_ERR_PARAM_NULLPTR; concat!("a ", $what, " is NULL"));
            match get(handle) {
                Some(Object::$variant(found)) => Ok(found),
                Some(other) => {
                    fail!(INVALID; concat!("{:#x} is a {}, not a ", $what), handle, other.kind())
                }
                None => fail!(INVALID; concat!("{:#x} is not a ", $what, ", or was destroyed"), handle),
            }
        }
    };
}

getter!(tensor, Tensor, Arc<Mutex<Tensor>>, "tensor");
getter!(tensor_list, TensorList, Arc<[usize]>, "tensor list");
getter!(scalar_list, ScalarList, Arc<[usize]>, "scalar list");
getter!(scalar, Scalar, Scalar, "scalar");
getter!(ints, Ints, Arc<[i64]>, "int array");
getter!(floats, Floats, Arc<[f32]>, "float array");
getter!(bools, Bools, Arc<[bool]>, "bool array");
getter!(executor, Executor, Arc<Executor>, "executor");
