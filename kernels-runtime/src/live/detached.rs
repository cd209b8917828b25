//! Copies of what a body captures: parameters, and the layers of its struct.
//!
//! A backward pass of a check must not reach the program's own leaves. Burn forgets a leaf that a pass has reached. If
//! a graph of the program is merged after that, Burn puts the leaf into the merged graph for good. The graphs of all
//! threads that use the leaf are then one, and two of these threads may wait for each other for ever.
//!
//! Every closure by which an expansion hands over the user's code therefore begins with `detached!` of what it captures.
//! This makes copies that are leaves of their own, but only if a check [asks](call) for them. The closure then withdraws
//! the request, before anything is computed: a thread that waits for Rayon may take up other work of the program, which
//! must not run on copies.

use crate::kernel::any_rank::{flat, sizes};
use burn::backend::DispatchTensor;
use burn::module::{Module, ModuleMapper, Param};
use burn::tensor::{FloatDType, Gradients, Tensor};
use std::cell::{Cell, RefCell};

thread_local! {
    static ASKED: Cell<bool> = const { Cell::new(false) };
    static COPIES: RefCell<Option<Copies>> = const { RefCell::new(None) };
}

/// Calls a closure of the user's code on copies of what it captures.
pub(crate) fn call<T>(closure: impl FnOnce() -> T) -> T {
    struct Restore(bool);
    impl Drop for Restore {
        fn drop(&mut self) {
            ASKED.set(self.0);
        }
    }
    let _restore = Restore(ASKED.replace(true));
    closure()
}

/// Withdraws the request for copies. A closure of an expansion calls this after its last `detached!`.
pub(crate) fn begin() {
    ASKED.set(false);
}

/// Returns a copy of a module whose tracked parameters are new leaves, if a check asks for one.
pub(crate) fn module<T: Module>(original: &T) -> Option<T> {
    /// The name of the current field.
    struct Detach(String);
    impl ModuleMapper for Detach {
        fn enter_module(&mut self, name: &str, _: &str) {
            name.clone_into(&mut self.0);
        }

        fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
            // Its initialisation would draw numbers that the program does not draw.
            if !param.is_initialized() || !param.base().is_tracked() {
                return param;
            }
            param.map(|original| copy(&self.0, &original))
        }
    }
    ASKED
        .get()
        .then(|| original.clone().map(&mut Detach(String::new())))
}

/// Returns a copy of a tensor that is a leaf of its own, if a check asks for one.
pub(crate) fn tensor<const D: usize>(original: &Tensor<D>) -> Option<Tensor<D>> {
    (ASKED.get() && original.is_tracked()).then(|| copy("", original))
}

/// States that a closure captures a value of which no copy can be made.
pub(crate) fn cannot_copy() {
    if ASKED.get() {
        COPIES.with_borrow_mut(|copies| {
            if let Some(copies) = copies {
                copies.is_incomplete = true;
            }
        });
    }
}

fn copy<const D: usize>(name: &str, original: &Tensor<D>) -> Tensor<D> {
    Tensor::from_dispatch(copy_erased(name, original.clone().into_dispatch()))
}

fn copy_erased(name: &str, original: DispatchTensor) -> DispatchTensor {
    let copy = flat(&original).detach().into_dispatch();
    COPIES.with_borrow_mut(|copies| {
        if let Some(copies) = copies {
            copies.pairs.push(Pair {
                name: name.to_owned(),
                original,
                copy: copy.clone(),
            });
        }
    });
    copy
}

/// The copies that the closures of one computation made.
#[derive(Default)]
pub(super) struct Copies {
    pairs: Vec<Pair>,
    is_incomplete: bool,
}

impl Copies {
    /// Runs a computation and returns the copies that its closures made.
    pub(super) fn during<T>(compute: impl FnOnce() -> T) -> (T, Self) {
        struct Restore(Option<Copies>);
        impl Drop for Restore {
            fn drop(&mut self) {
                COPIES.set(self.0.take());
            }
        }
        let restore = Restore(COPIES.replace(Some(Self::default())));
        let computed = compute();
        let copies = COPIES.take().unwrap_or_default();
        drop(restore);
        (computed, copies)
    }

    /// Returns `true` if a closure captured a value of which no copy could be made.
    pub(super) fn is_incomplete(&self) -> bool {
        self.is_incomplete
    }

    /// Gives the gradients of the copies to the tensors that they were made of.
    pub(super) fn hand_back(&self, gradients: &mut Gradients) {
        for pair in &self.pairs {
            pair.hand_back(gradients);
        }
    }

    /// Calls `each` with every tensor that was copied, its name and its gradient, in the order of the copies. Gradients were
    /// handed back.
    pub(super) fn gradients<T>(
        &self,
        gradients: &Gradients,
        each: impl Fn(&str, Option<DispatchTensor>) -> T,
    ) -> Vec<T> {
        let pairs = self.pairs.iter();
        pairs
            .map(|pair| {
                let gradient = flat(&pair.original).grad(gradients);
                each(&pair.title(), gradient.map(Tensor::into_dispatch))
            })
            .collect()
    }

    /// Returns a tensor that has a gradient other than zero, and none in `others`. Gradients were handed back in both.
    pub(super) fn missing(&self, gradients: &Gradients, others: &Gradients) -> Option<String> {
        let mut pairs = self.pairs.iter();
        pairs.find_map(|pair| pair.missing(gradients, others))
    }
}

struct Pair {
    /// The name of the field, or nothing.
    name: String,
    original: DispatchTensor,
    copy: DispatchTensor,
}

impl Pair {
    fn hand_back(&self, gradients: &mut Gradients) {
        let Some(own) = flat(&self.copy).grad(gradients) else {
            return;
        };
        let original = flat(&self.original);
        // A tensor has several copies if several closures capture it.
        let sum = match original.grad(gradients) {
            Some(others) => others + own,
            None => own,
        };
        original.grad_replace(gradients, sum);
    }

    fn missing(&self, gradients: &Gradients, others: &Gradients) -> Option<String> {
        let original = flat(&self.original);
        if original.grad(others).is_some() {
            return None;
        }
        let largest = original.grad(gradients)?.abs().max();
        let is_zero = largest.cast(FloatDType::F32).into_scalar::<f32>() == 0.0;
        (!is_zero).then(|| self.title())
    }

    /// Returns the name of the field and the shape.
    fn title(&self) -> String {
        format!("{} {:?}", self.name, sizes(&self.original))
    }
}
