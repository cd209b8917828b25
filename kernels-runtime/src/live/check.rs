//! The check of one call.

use super::body::run_body;
use super::case::{Case, describe, describe_sample};
use super::checks::Due;
use super::epsilon;
use super::mismatch::Mismatch;
use super::noise::{changes, mark_rounded};
use super::order::judge_order;
use super::run::{Computed, Split, Take, TakeRows, Upstream, Values, cut, exact, run};
use super::sampling::Width;
use super::tolerance::{Miss, Three, Who};
use crate::context;
use crate::device::{DeviceKind, DeviceKinds};
use crate::dispatch::Site;
use crate::kernel::any_rank::flat;
use crate::kernel::erased::{AnyOperands, AnyTensors, ErasedOperands, ErasedTensors};
use crate::kernel::{Operands, Visitor};
use crate::ops::derived;
use crate::registry::{FloatType, Implementation};
use crate::warning::warning;
use burn::backend::DispatchTensor;
use burn::tensor::{DType, Device};
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use thiserror::Error;

/// A body of any type, on operands of any type.
pub(super) type Body<'a> = Box<dyn FnOnce(AnyOperands) -> AnyTensors + 'a>;

/// The operands that a body captures instead of taking them from its argument.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Captured {
    /// These operands. The body takes all others from its argument.
    These(&'static [&'static str]),
    /// Unknown operands.
    Unknown,
}

/// A call that is checked.
pub(super) struct Call {
    pub(super) site: &'static Site,
    pub(super) implementation: &'static Implementation,
    pub(super) captured: Captured,
    /// The part that is compared.
    pub(super) width: Width,
    pub(super) due: Due,
}

impl Call {
    /// Runs the implementation, and compares it and the body with the reference.
    #[track_caller]
    pub(super) fn checked(self, operands: AnyOperands, body: Body<'_>) -> AnyTensors {
        let Self {
            site,
            implementation,
            captured,
            width,
            due,
        } = self;
        let before = site.checks().timed();
        let told = describe(&*operands);
        let reaches = captured.reaches_into_a_graph(&*operands);
        let case = Case::of(&*operands, width, site, implementation);
        // A part of a captured operand, such as some experts' weights, has no gradient of its own.
        let trained = captured.trained(&*case.operands);
        drop(before);
        // The operands are moved, so that a kernel may reuse their buffers as in an unchecked call.
        let mut result = derived::launch_erased(operands, implementation);
        let _after = site.checks().timed();
        // Annotated sites inside the body are neither checked nor counted, because the program did not call them.
        let _uncounted = context::uncounted();
        let Some(look) = Look::at(&*case.operands, case.split) else {
            not_finite(site, due);
            return result;
        };
        let expected = Expected::of(&*case.operands, &look);
        let kernel = expected.judge_call(implementation, &case, &look, &mut *result);
        let run = || run_body(&*case.operands, captured, reaches, look.upstream, body);
        let body = unless_it_panics(site, case.is_sample, run).map(|body| {
            let flows = |name: &str| captured.flows(name) || trained.contains(&name);
            let judged = expected.judged(Who::Body, &*case.operands, &look, |changes| {
                expected.judge_body(&body, flows, changes)
            });
            let error = judged
                .map_err(|miss| epsilon::explained(miss, &*case.operands, &body, &flows, &look))?;
            judge_order(&*case.operands, &expected.plain, &body).map(|()| error)
        });
        match (kernel, body) {
            (Ok(kernel), Some(Ok(body))) => site.checks().passed(kernel, body),
            (Ok(_), None) => site.checks().skip(),
            (kernel, body) => Mismatch {
                site,
                implementation,
                kernel: Some(kernel),
                body,
                operands: told,
                compared: case
                    .is_sample
                    .then(|| describe_sample(&*case.operands, case.split)),
            }
            .raise(),
        }
        due.done();
        result
    }
}

/// Notes that a call could not be compared. The first of its class is logged.
pub(super) fn not_finite(site: &Site, due: Due) {
    if due.not_finite() {
        warning!(
            "live verification has compared no call of this kind of {} yet: an operand or a result of this one is not \
             finite, or no device of this build computes in f64. It looks at the next calls instead",
            site.name()
        );
    }
}

/// Runs a body on a sample of its operands. A body that accepts only the sizes of the call panics, which is not a
/// mistake. It is then not compared, and a warning is logged.
#[track_caller]
pub(super) fn unless_it_panics<T>(
    site: &Site,
    is_sample: bool,
    body: impl FnOnce() -> T,
) -> Option<T> {
    if !is_sample {
        return Some(body());
    }
    // An unfinished result of the body is dropped.
    let panic = match catch_unwind(AssertUnwindSafe(body)) {
        Ok(computed) => return Some(computed),
        Err(panic) => panic,
    };
    warning!(
        "live verification could not compare {}: its body can't run on a few rows of its operands \
         ({}). BURN_KERNELS_VERIFY=first,whole compares whole calls",
        site.name(),
        message(&*panic)
    );
    None
}

/// Returns the message of a panic.
pub(super) fn message(panic: &(dyn Any + Send)) -> &str {
    panic
        .downcast_ref::<String>()
        .map(String::as_str)
        .or_else(|| panic.downcast_ref::<&str>().copied())
        .unwrap_or("a panic without a message")
}

/// Compares one run of an implementation with the reference in f64, for the tests of a kernel. It compares the results
/// and, if the operands have autodiff, every gradient. Returns the largest error as a fraction of the error that the
/// dtype allows.
///
/// # Errors
/// Returns an error if an element is outside the budget, or if there is nothing to compare.
pub fn verify<O: Operands>(
    implementation: &'static Implementation,
    operands: &O,
) -> Result<f64, VerifyError> {
    verify_erased(implementation, operands)
}

fn verify_erased(
    implementation: &'static Implementation,
    operands: &dyn ErasedOperands,
) -> Result<f64, VerifyError> {
    let look = Look::at(operands, None).ok_or(VerifyError::NotComparable)?;
    let kernel = run(cut(operands), None, look.upstream, |operands| {
        derived::launch_erased(operands, implementation)
    });
    let expected = Expected::of(operands, &look);
    let judged = expected.judged(Who::Kernel, operands, &look, |changes| {
        expected.judge_kernel(&kernel, changes)
    });
    judged.map_err(|miss| VerifyError::Differs {
        implementation: implementation.name,
        operands: describe(operands),
        miss: miss.to_string(),
    })
}

/// The reason why [`verify`] failed.
#[derive(Clone, PartialEq, Eq, Error)]
pub enum VerifyError {
    /// An element is outside the budget.
    #[error("{implementation} on {operands}: {miss}")]
    Differs {
        /// The implementation's name.
        implementation: &'static str,
        /// The names, dtypes and shapes of the operands.
        operands: String,
        /// The element and its result or gradient, its value and the expected value.
        miss: String,
    },
    /// An input without anything to compare.
    #[error(
        "there is nothing to compare: the operands hold no tensor, one of a type that is not a float, \
         an infinity or a NaN, or no device of this build computes in f64"
    )]
    NotComparable,
}

/// The results of the reference, in f64 and in the tensors' own dtype.
pub(super) struct Expected {
    exact: Computed,
    plain: Computed,
    dtype: FloatType,
    /// The size of the terms of the results.
    terms: f64,
    /// The size of the terms of each gradient.
    gradient_terms: Vec<f64>,
    split: Option<Split>,
}

impl Expected {
    pub(super) fn of(operands: &dyn ErasedOperands, look: &Look) -> Self {
        let operands_in_f64 = exact(operands, &look.exact);
        let reference = |operands: AnyOperands| operands.reference();
        let exact = run(operands_in_f64.copy(), None, look.upstream, reference);
        // An infinite size would allow anything.
        let finite = |terms: f64| if terms.is_finite() { terms } else { 0.0 };
        let names = exact.gradients.iter();
        let names = names.map(|gradient| Some(&gradient.as_ref()?.name[2..]));
        Self {
            terms: finite(operands_in_f64.terms()),
            gradient_terms: names
                .map(|name| finite(name.map_or(0.0, |name| operands_in_f64.gradient_terms(name))))
                .collect(),
            exact,
            plain: run(cut(operands), None, look.upstream, reference),
            dtype: look.dtype,
            split: look.split,
        }
    }

    /// Returns `true` if the results can be compared.
    pub(super) fn is_finite(&self) -> bool {
        let mut results = self
            .exact
            .results
            .iter()
            .flat_map(|values| &values.elements);
        results.all(|element| element.is_finite())
    }

    /// Judges, and does so once more by what roundings may change if the first judgement finds a difference.
    fn judged(
        &self,
        who: Who,
        operands: &dyn ErasedOperands,
        look: &Look,
        judge: impl Fn(Option<&Computed>) -> Result<f64, Miss>,
    ) -> Result<f64, Miss> {
        judge(None).or_else(|_| {
            let noisy = || {
                let operands = exact(operands, &look.exact);
                run(operands, None, look.upstream, |mut operands| {
                    mark_rounded(&mut *operands);
                    let mut results = operands.reference();
                    mark_rounded(&mut *results);
                    results
                })
            };
            judge(Some(&changes(who, self.dtype, &self.exact, noisy)))
        })
    }

    /// Judges the kernel: its run on the compared part, with gradients, and the same rows of the result that the
    /// program receives, if the part has rows of it.
    fn judge_call(
        &self,
        implementation: &'static Implementation,
        case: &Case,
        look: &Look,
        result: &mut dyn ErasedTensors,
    ) -> Result<f64, Miss> {
        let of_run = |all: &[Values]| -> Vec<Values> {
            all.iter().map(|values| values.of_run(self.split)).collect()
        };
        let (exact, plain) = (of_run(&self.exact.results), of_run(&self.plain.results));
        let got = match case.is_sample {
            true if case.operands.samples_apart() => Vec::new(),
            true => TakeRows::of(result, &plain, case.operands.samples_prefix()),
            false => Take::of(result),
        };
        let returned = |changes: Option<&Computed>| {
            let changes = changes.map(|changes| of_run(&changes.results));
            let both = exact.iter().zip(&plain).zip(&got).enumerate();
            worst(both.map(|(index, ((exact, plain), got))| {
                let three = Three {
                    terms: self.terms,
                    noise: changes.as_ref().map(|changes| &changes[index]),
                    split: None,
                    ..self.three(exact, plain, got)
                };
                three.kernel()
            }))
        };
        let is_all = !case.is_sample && look.upstream == Upstream::None;
        let again = (!is_all).then(|| {
            run(cut(&*case.operands), None, look.upstream, |operands| {
                derived::launch_erased(operands, implementation)
            })
        });
        self.judged(Who::Kernel, &*case.operands, look, |changes| {
            let returned = returned(changes)?;
            let again = again.as_ref();
            let again = again.map_or(Ok(0.0), |again| self.judge_kernel(again, changes));
            Ok(returned.max(again?))
        })
    }

    /// Returns the largest error of all results and gradients, as a fraction of the allowed error.
    fn judge_kernel(&self, kernel: &Computed, changes: Option<&Computed>) -> Result<f64, Miss> {
        let results = self.results(kernel, changes).map(Three::kernel);
        let gradients = self.gradients(kernel, changes);
        let gradients = gradients.map(|gradient| match gradient {
            Gradient::Taken(three) => three.kernel(),
            Gradient::Missing(name) => Err(Miss::NoGradient { result: name }),
        });
        worst(results.chain(gradients))
    }

    /// `flows` returns true for the operands whose gradients the body must have.
    pub(super) fn judge_body(
        &self,
        body: &Computed,
        flows: impl Fn(&str) -> bool,
        changes: Option<&Computed>,
    ) -> Result<f64, Miss> {
        let results = self.results(body, changes).map(Three::body);
        let gradients = self.gradients(body, changes);
        let gradients = gradients.map(|gradient| match gradient {
            Gradient::Taken(three) => three.body(),
            Gradient::Missing(name) if flows(&name[2..]) => Err(Miss::NoGradient { result: name }),
            Gradient::Missing(_) => Ok(0.0),
        });
        worst(results.chain(gradients))
    }

    fn results<'a>(
        &'a self,
        got: &'a Computed,
        changes: Option<&'a Computed>,
    ) -> impl Iterator<Item = Three<'a>> {
        let expected = self.exact.results.iter().zip(&self.plain.results);
        let all = expected.zip(&got.results).enumerate();
        all.map(move |(index, ((exact, plain), got))| Three {
            terms: self.terms,
            noise: changes.map(|changes| &changes.results[index]),
            ..self.three(exact, plain, got)
        })
    }

    /// Returns the gradients that the reference has. Gradients of `got` may be missing.
    fn gradients<'a>(
        &'a self,
        got: &'a Computed,
        changes: Option<&'a Computed>,
    ) -> impl Iterator<Item = Gradient<'a>> {
        let expected = self.exact.gradients.iter().zip(&self.plain.gradients);
        let expected = expected.zip(&self.gradient_terms);
        let all = expected.zip(&got.gradients).enumerate();
        all.filter_map(move |(index, (((exact, plain), &terms), got))| {
            let (exact, plain) = (exact.as_ref()?, plain.as_ref()?);
            Some(match got {
                Some(got) => Gradient::Taken(Three {
                    terms,
                    noise: changes.and_then(|changes| changes.gradients[index].as_ref()),
                    ..self.three(exact, plain, got)
                }),
                None if exact.elements.iter().all(|&element| element == 0.0) => return None,
                None => Gradient::Missing(exact.name.clone()),
            })
        })
    }

    fn three<'a>(&self, exact: &'a Values, plain: &'a Values, got: &'a Values) -> Three<'a> {
        Three {
            exact,
            plain,
            got,
            dtype: self.dtype,
            terms: 0.0,
            noise: None,
            split: self.split,
        }
    }
}

enum Gradient<'a> {
    Taken(Three<'a>),
    /// The name of a gradient that was not taken, such as `d_x`.
    Missing(String),
}

fn worst(mut parts: impl Iterator<Item = Result<f64, Miss>>) -> Result<f64, Miss> {
    parts.try_fold(0.0_f64, |worst, part| Ok(worst.max(part?)))
}

/// The facts about the operands that a check needs.
pub(super) struct Look {
    /// The dtype that sets the budget: the least precise of the operands.
    dtype: FloatType,
    upstream: Upstream,
    /// The device that computes in f64.
    exact: Device,
    split: Option<Split>,
}

impl Look {
    /// Returns the facts about the operands, or `None` if there is nothing to compare.
    fn at(operands: &dyn ErasedOperands, split: Option<Split>) -> Option<Self> {
        let mut operands = operands.copy();
        let mut seen = Seen::default();
        operands.visit(&mut seen);
        let taken = Take::of(&mut *operands);
        let mut elements = taken.iter().flat_map(|values| &values.elements);
        if !elements.all(|element| element.is_finite()) {
            return None;
        }
        let floats = taken.iter().map(|v| FloatType::from_dtype(v.dtype));
        let dtype = floats.collect::<Option<Vec<_>>>()?.into_iter().max()?;
        Some(Self {
            dtype,
            upstream: match seen.autodiff {
                true => Upstream::Fixed(dtype, split),
                false => Upstream::None,
            },
            exact: exact_device(seen.device?)?,
            split,
        })
    }
}

#[derive(Default)]
struct Seen {
    device: Option<Device>,
    autodiff: bool,
}

impl Visitor for Seen {
    fn visit(&mut self, _: &'static str, tensor: &mut DispatchTensor) {
        let device = flat(tensor).device();
        self.autodiff |= device.is_autodiff();
        self.device.get_or_insert(device.inner());
    }
}

/// Returns the device itself if it computes in f64, otherwise the CPU if this build supports it. Most operations in f64
/// run on the host for an NPU, and a program may deny this; some languages of GPUs have f64, but not all functions of it.
/// So neither is ever returned.
fn exact_device(device: Device) -> Option<Device> {
    let kind = DeviceKind::of(&device);
    let computes = kind != DeviceKind::Npu && !DeviceKinds::GPU.contains(kind);
    if computes && device.supports_dtype(DType::F64) {
        return Some(device);
    }
    #[cfg(feature = "cpu")]
    return Some(Device::flex());
    #[cfg(not(feature = "cpu"))]
    None
}
