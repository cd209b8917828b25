use super::Decision;
use crate::registry::Implementation;
use crate::tune::Class;

/// The path of a call that is about to run, with the class of calls that it is measured for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Route {
    decision: Decision,
    /// True under autodiff, `None` if it is not known.
    is_training: Option<bool>,
    open: Option<&'static Class>,
}

impl Route {
    /// Creates the route of a call that runs an implementation and is measured.
    pub(super) fn measured(implementation: &'static Implementation, class: &'static Class) -> Self {
        Self {
            decision: Decision::Fused(implementation),
            is_training: None,
            open: Some(class),
        }
    }

    /// Adds the mode of the call.
    #[inline]
    pub(super) const fn of_mode(self, is_training: bool) -> Self {
        Self {
            is_training: Some(is_training),
            ..self
        }
    }

    /// Returns `true` if autodiff is enabled for the call, or `None` if that is not known.
    #[inline]
    pub(crate) const fn is_training(self) -> Option<bool> {
        self.is_training
    }

    /// Returns the path.
    #[inline]
    pub(crate) const fn decision(self) -> Decision {
        self.decision
    }

    /// Returns the class that the call is measured for, if the policy tunes and the class is not decided.
    #[inline]
    pub(crate) const fn open(self) -> Option<&'static Class> {
        self.open
    }
}

impl From<Decision> for Route {
    #[inline]
    fn from(decision: Decision) -> Self {
        Self {
            decision,
            is_training: None,
            open: None,
        }
    }
}
