//! A call between its two phases.

use std::marker::PhantomData;

use cann_sys::PhaseTwo;
use cann_sys::types::{aclOpExecutor, aclnnStatus};

use super::cache::{Attribute, Kept, Key};
use super::constant::Constant;
use super::executor::Executor;
use super::operand::{Handles, Operand};
use crate::cann::lock;
use crate::error::Result;
use crate::stream::Stream;
use crate::tensor::Tensor;

/// A call that was planned and has not run. Dropping it drops the plan.
///
/// It stays on the thread that made it:
///
/// ```compile_fail,E0277
/// fn send<T: Send>() {}
/// send::<burn_cann::Prepared<()>>();
/// ```
#[derive(Debug)]
#[must_use = "nothing runs before `launch`"]
pub struct Prepared<T> {
    output: T,
    call: Option<PlannedCall>,
    _of_this_thread: PhantomData<*const ()>,
}

/// A call whose first phase has run.
#[derive(Debug)]
struct PlannedCall {
    stream: Stream,
    operator: &'static str,
    operands: Vec<Operand>,
    key: Option<Key>,
    executor: Executor,
    phase_two: PhaseTwo,
}

/// A call before its first phase.
pub(crate) struct Request<'a> {
    pub(crate) stream: &'a Stream,
    /// The operator's name, which is that of phase two.
    pub(crate) operator: &'static str,
    /// Tensors in the order of the signature.
    pub(crate) operands: Vec<Operand>,
    /// All other parameters of the signature.
    pub(crate) attributes: Vec<Attribute>,
    pub(crate) phase_two: PhaseTwo,
}

/// The result of phase one.
pub(crate) struct PhaseOneAnswer {
    pub(crate) workspace: u64,
    pub(crate) executor: *mut aclOpExecutor,
}

impl Request<'_> {
    /// Runs phase one, unless an executor of an equal call is kept. Constants count as attributes.
    pub(crate) fn prepare<T>(
        mut self,
        output: T,
        constants: &[Constant],
        phase_one: impl FnOnce(&Handles, &mut PhaseOneAnswer) -> aclnnStatus,
    ) -> Result<Prepared<T>> {
        for constant in constants {
            constant.describe(&mut self.attributes);
        }
        let key = self.key();
        self.prepare_as(key, output, constants, phase_one)
    }

    /// Prepares a call that will hardly come again, such as one with a seed. Its executor is not kept, because it
    /// would take the place of others.
    pub(crate) fn prepare_once<T>(
        self,
        output: T,
        constants: &[Constant],
        phase_one: impl FnOnce(&Handles, &mut PhaseOneAnswer) -> aclnnStatus,
    ) -> Result<Prepared<T>> {
        self.prepare_as(None, output, constants, phase_one)
    }

    fn prepare_as<T>(
        self,
        key: Option<Key>,
        output: T,
        constants: &[Constant],
        phase_one: impl FnOnce(&Handles, &mut PhaseOneAnswer) -> aclnnStatus,
    ) -> Result<Prepared<T>> {
        let device = self.stream.inner_device();
        for tensor in self.operands.iter().flat_map(Operand::tensors) {
            self.stream
                .same_device("a tensor", tensor.device().inner())?;
        }
        device.enter()?;
        let kept = match &key {
            Some(key) => lock(device.executors()).take(key),
            None => Kept::Nothing,
        };
        let (executor, key) = match kept {
            Kept::Value(mut executor) => {
                executor.rebind(&self.operands)?;
                (executor, key)
            }
            Kept::Room => (self.plan(constants, phase_one, true)?, key),
            Kept::Nothing => (self.plan(constants, phase_one, false)?, None),
        };
        Ok(Prepared {
            output,
            call: Some(PlannedCall {
                stream: self.stream.clone(),
                operator: self.operator,
                operands: self.operands,
                key,
                executor,
                phase_two: self.phase_two,
            }),
            _of_this_thread: PhantomData,
        })
    }

    fn plan(
        &self,
        constants: &[Constant],
        phase_one: impl FnOnce(&Handles, &mut PhaseOneAnswer) -> aclnnStatus,
        repeatable: bool,
    ) -> Result<Executor> {
        let cann = self.stream.inner_device().cann();
        let handles = Handles::new(cann, &self.operands, constants)?;
        let mut answer = PhaseOneAnswer {
            workspace: 0,
            executor: std::ptr::null_mut(),
        };
        let span = tracing::trace_span!("cann", function = self.operator, phase = 1).entered();
        let code = phase_one(&handles, &mut answer);
        drop(span);
        cann.check(self.operator, code)?;
        let PhaseOneAnswer {
            workspace,
            executor,
        } = answer;
        let mut executor = Executor::new(cann, handles, executor, workspace, self.operator)?;
        if repeatable {
            executor.make_repeatable();
        }
        Ok(executor)
    }

    /// Returns the key of a call with tensors alone. Other calls are not kept, because CANN does not document well
    /// enough how lists and absent operands are counted when addresses change.
    fn key(&self) -> Option<Key> {
        let specs = self.operands.iter().map(|operand| match operand {
            Operand::Tensor(tensor) => tensor.memory().map(|_| tensor.spec().clone()),
            Operand::List(_) | Operand::Absent => None,
        });
        if !lock(self.stream.inner_device().executors()).is_on() {
            return None;
        }
        Some(Key {
            operator: self.operator,
            attributes: self.attributes.clone(),
            operands: specs.collect::<Option<_>>()?,
        })
    }
}

impl<T> Prepared<T> {
    /// Returns a call that has nothing to compute and is not made.
    pub(crate) fn nothing(output: T) -> Self {
        Self {
            output,
            call: None,
            _of_this_thread: PhantomData,
        }
    }

    /// Returns the size in bytes of the workspace, which the allocator provides at launch.
    pub fn workspace(&self) -> u64 {
        self.call
            .as_ref()
            .map_or(0, |call| call.executor.workspace())
    }

    /// Runs phase two: hands the work to the stream and returns.
    ///
    /// # Errors
    ///
    /// Returns an error if the workspace can't be allocated or CANN refuses the work.
    pub fn launch(self) -> Result<T> {
        if let Some(call) = self.call {
            call.launch()?;
        }
        Ok(self.output)
    }
}

impl PlannedCall {
    fn launch(self) -> Result<()> {
        let Self {
            stream,
            operator,
            operands,
            key,
            executor,
            phase_two,
        } = self;
        let workspace = match usize::try_from(executor.workspace()).unwrap_or(usize::MAX) {
            0 => None,
            bytes => Some(stream.allocate(bytes)?),
        };
        let tensors = operands
            .iter()
            .flat_map(Operand::tensors)
            .filter_map(Tensor::memory);
        let memory: Vec<_> = tensors.chain(&workspace).collect();
        let address = workspace
            .as_ref()
            .map_or(std::ptr::null_mut(), |memory| memory.address().pointer());
        let (result, executor) = stream.submit(&memory, |raw| {
            // SAFETY: `Request` pairs the phases. A block that is freed while the work is under way is reused only
            // behind that work, so memory outlives the call on the device.
            Ok(unsafe { executor.run(operator, phase_two, address, raw) })
        })?;
        // An executor whose call failed may be in any state, so it is not kept.
        if let (Ok(()), Some(executor), Some(key)) = (&result, executor, key) {
            let surplus = lock(stream.inner_device().executors()).give_back(key, executor);
            drop(surplus);
        }
        result
    }
}
