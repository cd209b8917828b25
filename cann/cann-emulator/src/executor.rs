//! The two phases of an operator, and the executor between them.

use std::ffi::c_void;
use std::sync::{Arc, Mutex, PoisonError};

use cann_sys::meta::*;

use crate::error::{Failure, Outcome, ensure, fail, status};
use crate::memory::{Memory, memory};
use crate::object::{self, Object};
use crate::scalar::Scalar;
use crate::state;
use crate::stream::Task;
use crate::tensor::Tensor;

/// The work of an operator. It reads and writes its operands, in the order in which phase one took them.
pub(crate) type Work = Arc<dyn Fn(&mut Memory, &[Tensor]) -> Outcome<()> + Send + Sync>;

/// Returns the operands that phase one took, of which there are always as many.
pub(crate) fn taken<const N: usize>(operands: &[Tensor]) -> &[Tensor; N] {
    let Ok(operands) = operands.try_into() else {
        unreachable!("phase one takes {N} operands")
    };
    operands
}

/// A tensor of an operator.
#[derive(Clone)]
pub(crate) struct Operand {
    /// The tensor's handle, and that of its list if it is in one.
    handle: usize,
    list: Option<usize>,
    output: bool,
    /// The parameter that it belongs to, counted over all parameters.
    parameter: usize,
    pub(crate) tensor: Tensor,
}

/// The result of phase one for phase two.
pub(crate) struct Executor {
    operator: &'static str,
    work: Work,
    workspace: u64,
    state: Mutex<State>,
}

struct State {
    operands: Vec<Operand>,
    repeatable: bool,
}

impl Executor {
    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the name of its operator.
    pub(crate) fn operator(&self) -> &'static str {
        self.operator
    }

    pub(crate) fn make_repeatable(&self) {
        self.state().repeatable = true;
    }

    /// Sets another address of operands: those of `parameter`, counted over all operands, or over only inputs or
    /// outputs if `output` is given. Of a list, only `member` is set.
    pub(crate) fn set_address(
        &self,
        output: Option<bool>,
        parameter: usize,
        member: Option<usize>,
        address: usize,
    ) -> Outcome<()> {
        let mut state = self.state();
        ensure!(state.repeatable;
            "the executor of {} is not repeatable: call aclSetAclOpExecutorRepeatable straight \
             after phase one", self.operator);
        let mut parameters: Vec<usize> = state
            .operands
            .iter()
            .filter(|operand| output.is_none_or(|output| operand.output == output))
            .map(|operand| operand.parameter)
            .collect();
        parameters.dedup();
        let Some(parameter) = parameters.get(parameter).copied() else {
            fail!(
                "{} has {} such operands; operand {parameter} is out of range",
                self.operator,
                parameters.len()
            )
        };
        let mut found = state
            .operands
            .iter_mut()
            .filter(|operand| operand.parameter == parameter)
            .filter(|operand| operand.list.is_some() == member.is_some());
        let Some(operand) = found.nth(member.unwrap_or(0)) else {
            fail!("{}: no such member of a list", self.operator)
        };
        operand.tensor.address = address;
        Ok(())
    }
}

/// The operands, as phase one reads them from its parameters.
#[derive(Default)]
pub(crate) struct Operands {
    taken: Vec<Operand>,
    parameters: usize,
}

impl Operands {
    fn take(&mut self, name: &str, handle: usize, output: bool) -> Outcome<Tensor> {
        self.parameters += 1;
        self.take_member(name, handle, None, output)
    }

    fn take_member(
        &mut self,
        name: &str,
        handle: usize,
        list: Option<usize>,
        output: bool,
    ) -> Outcome<Tensor> {
        let tensor = object::tensor(handle)
            .map_err(|failure| Failure::new(failure.code, format!("{name}: {}", failure.text)))?;
        let tensor = tensor
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone();
        ensure!(tensor.address != 0 || tensor.count() == 0, ACLNN_ERR_PARAM_NULLPTR;
            "{name} has no data");
        if tensor.dtype == ACL_BF16 {
            let config = state::config()?;
            ensure!(config.has_bf16(); "{name} is bf16, which {} does not have", config.soc);
        }
        self.taken.push(Operand {
            handle,
            list,
            output,
            parameter: self.parameters,
            tensor: tensor.clone(),
        });
        Ok(tensor)
    }

    /// Takes a required input.
    pub(crate) fn input(&mut self, name: &str, tensor: *const aclTensor) -> Outcome<Tensor> {
        self.take(name, tensor as usize, false)
    }

    /// Takes an input that may be NULL.
    pub(crate) fn optional(
        &mut self,
        name: &str,
        tensor: *const aclTensor,
    ) -> Outcome<Option<Tensor>> {
        if tensor.is_null() {
            self.parameters += 1;
            return Ok(None);
        }
        self.input(name, tensor).map(Some)
    }

    /// Takes a required output.
    pub(crate) fn output(&mut self, name: &str, tensor: *const aclTensor) -> Outcome<Tensor> {
        self.take(name, tensor as usize, true)
    }

    /// Returns a value on the host.
    pub(crate) fn scalar(&self, name: &str, scalar: *const aclScalar) -> Outcome<Scalar> {
        object::scalar(scalar as usize)
            .map_err(|failure| Failure::new(failure.code, format!("{name}: {}", failure.text)))
    }

    /// Returns integers on the host.
    pub(crate) fn ints(&self, name: &str, array: *const aclIntArray) -> Outcome<Arc<[i64]>> {
        object::ints(array as usize)
            .map_err(|failure| Failure::new(failure.code, format!("{name}: {}", failure.text)))
    }

    /// Takes a list of tensors. NULL is an empty list.
    pub(crate) fn list(
        &mut self,
        name: &str,
        list: *const aclTensorList,
        output: bool,
    ) -> Outcome<Vec<Tensor>> {
        self.parameters += 1;
        if list.is_null() {
            return Ok(Vec::new());
        }
        let list = list as usize;
        let members = object::tensor_list(list)?;
        members
            .iter()
            .map(|member| self.take_member(name, *member, Some(list), output))
            .collect()
    }
}

/// Runs phase one: reads and checks the operands, and makes the executor.
pub(crate) fn phase_one(
    operator: &'static str,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
    prepare: impl FnOnce(&mut Operands) -> Outcome<Work>,
) -> aclnnStatus {
    let made = || -> Outcome<()> {
        ensure!(!workspace_size.is_null() && !executor.is_null(), ACLNN_ERR_PARAM_NULLPTR;
            "the places for the size of the workspace and for the executor must not be NULL");
        let config = state::config()?;
        state::current_device()?;
        if let Some(code) = config.operator_errors.get(operator) {
            fail!(*code; "it fails, as the emulator was asked (operator_errors)");
        }
        let mut operands = Operands::default();
        let work = prepare(&mut operands)?;
        // The workspace is not empty, so that programs that forget it are noticed.
        let workspace = 32;
        let made = Executor {
            operator,
            work,
            workspace,
            state: Mutex::new(State {
                operands: operands.taken,
                repeatable: false,
            }),
        };
        // SAFETY: by the protocol the caller gives places to write to; NULL was refused.
        unsafe {
            *workspace_size = workspace;
            *executor = object::insert(Object::Executor(Arc::new(made))) as *mut aclOpExecutor;
        }
        Ok(())
    };
    status(&format!("{operator}GetWorkspaceSize"), made)
}

/// Runs phase two: enqueues the work and frees the executor in any case, unless it is repeatable.
pub(crate) fn phase_two(
    operator: &'static str,
    workspace: *mut c_void,
    workspace_size: u64,
    executor: *mut aclOpExecutor,
    stream: aclrtStream,
) -> aclnnStatus {
    status(operator, || {
        let found = object::executor(executor as usize)?;
        if !found.state().repeatable {
            object::remove(executor as usize);
        }
        launch(
            operator,
            &found,
            workspace as usize,
            workspace_size,
            stream as usize,
        )
    })
}

fn launch(
    operator: &'static str,
    executor: &Executor,
    workspace: usize,
    workspace_size: u64,
    stream: usize,
) -> Outcome<()> {
    ensure!(executor.operator == operator; "the executor is one of {}", executor.operator);
    ensure!(workspace_size >= executor.workspace;
        "a workspace of {workspace_size} bytes; phase one asked for {}", executor.workspace);
    ensure!(workspace != 0, ACLNN_ERR_PARAM_NULLPTR;
        "the workspace is NULL; phase one asked for {} bytes", executor.workspace);
    let stream = state::stream(stream)?;
    let operands = executor.state().operands.clone();
    {
        let memory = memory();
        memory
            .bytes(workspace, executor.workspace as usize)
            .map_err(as_runtime_error("the workspace"))?;
        for operand in &operands {
            let owner = operand.list.unwrap_or(operand.handle);
            ensure!(object::get(owner).is_some() && object::get(operand.handle).is_some();
                "an operand was destroyed between the phases; it must live until phase two has \
                 returned");
            operand
                .tensor
                .check_memory(&memory)
                .map_err(as_runtime_error("an operand"))?;
        }
    }
    let work = executor.work.clone();
    let tensors: Vec<Tensor> = operands.into_iter().map(|operand| operand.tensor).collect();
    let length = executor.workspace as usize;
    stream.enqueue(Task::Kernel(Box::new(move |memory| {
        // The workspace must live until the stream has come here, like the operands.
        let outcome = memory
            .bytes(workspace, length)
            .map(drop)
            .and_then(|()| work(memory, &tensors));
        outcome.map_err(|failure| {
            let text = format!("{operator}: {}", failure.text);
            Failure::new(cann_sys::errors::ACL_ERROR_RT_VECTOR_CORE_EXCEPTION, text)
        })
    })))
}

/// Turns a bad address into the runtime's error, whoever finds it. Other codes stay.
fn as_runtime_error(what: &'static str) -> impl Fn(Failure) -> Failure {
    move |failure| {
        let code = match failure.code {
            cann_sys::errors::ACL_ERROR_RT_PARAM_INVALID => ACLNN_ERR_RUNTIME_ERROR,
            other => other,
        };
        Failure::new(code, format!("{what}: {}", failure.text))
    }
}
