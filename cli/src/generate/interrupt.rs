//! Ctrl-C while texts are generated.

use signal_hook::consts::SIGINT;
use signal_hook::flag;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The state of Ctrl-C: pressed or not. While [`Interrupt::waiting`] holds, it ends the program instead, as it does by default.
#[derive(Debug)]
pub struct Interrupt {
    pressed: Arc<AtomicBool>,
    waiting: Arc<AtomicBool>,
}

/// The end of the program by Ctrl-C.
#[derive(Debug, thiserror::Error)]
#[error("interrupted by Ctrl-C (SIGINT); {0}")]
pub struct Interrupted(pub &'static str);

impl Interrupted {
    /// The exit code that shells use for a program ended by this signal.
    pub const EXIT_CODE: u8 = 130;
}

impl Interrupt {
    /// Collects Ctrl-C from now on.
    ///
    /// # Errors
    /// Returns an error if the system refuses.
    pub fn listen() -> std::io::Result<Self> {
        let (pressed, waiting) = <(Arc<AtomicBool>, Arc<AtomicBool>)>::default();
        flag::register_conditional_default(SIGINT, Arc::clone(&waiting))?;
        flag::register(SIGINT, Arc::clone(&pressed))?;
        crate::text::interrupt_templates_on(&pressed);
        Ok(Self { pressed, waiting })
    }

    /// Has Ctrl-C end the program, while it waits for the user, or no longer.
    pub fn wait(&self, waiting: bool) {
        self.waiting.store(waiting, Ordering::SeqCst);
    }

    /// Returns `true` if Ctrl-C was pressed since the last call of [`Interrupt::take`].
    pub fn pressed(&self) -> bool {
        self.pressed.load(Ordering::SeqCst)
    }

    /// Returns `true` if Ctrl-C was pressed, and forgets it.
    pub fn take(&self) -> bool {
        self.pressed.swap(false, Ordering::SeqCst)
    }

    /// Returns `Break` if Ctrl-C was pressed.
    pub fn flow(&self) -> ControlFlow<()> {
        match self.pressed() {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        }
    }
}
