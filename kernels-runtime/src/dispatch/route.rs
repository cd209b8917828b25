use super::Decision;
use crate::registry::Implementation;
use crate::tune::Class;

/// The path of a call that is about to run, with the class of calls that it is measured for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Route {
    decision: Decision,
    open: Option<&'static Class>,
}

impl Route {
    /// Creates the route of a call that runs an implementation and is measured.
    pub(super) fn measured(implementation: &'static Implementation, class: &'static Class) -> Self {
        Self {
            decision: Decision::Fused(implementation),
            open: Some(class),
        }
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
            open: None,
        }
    }
}
