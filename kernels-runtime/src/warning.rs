//! Warnings that reach the user.
//!
//! A warning is an event of `tracing`, and a record of `log` if the program has no subscriber. A program may have
//! neither. The first warning of such a process is therefore printed on standard error.

use std::fmt;
use std::sync::Once;
use tracing::dispatcher;
use tracing::subscriber::NoSubscriber;

/// Logs a warning: the arguments of [`tracing::warn!`], which must end with the message.
macro_rules! warning {
    ($($field:ident = $value:expr,)* $format:literal $(, $argument:expr)* $(,)?) => {{
        ::tracing::warn!($($field = $value,)* $format $(, $argument)*);
        $crate::warning::unheard(format_args!($format $(, $argument)*));
    }};
}
pub(crate) use warning;

/// Prints the first warning if the program has no subscriber and no logger.
pub(crate) fn unheard(message: fmt::Arguments<'_>) {
    static FIRST: Once = Once::new();
    if is_heard() {
        return;
    }
    FIRST.call_once(|| {
        eprintln!(
            "burn-kernels: warning: {message} (Further warnings are not printed: install a `tracing` subscriber or \
             a `log` logger to see them. `burn_kernels::report::report()` lists which path each site ran, and why.)"
        );
    });
}

/// Returns `true` if the program has a `tracing` subscriber or a `log` logger, which may still filter warnings out.
fn is_heard() -> bool {
    let subscriber = !dispatcher::get_default(|subscriber| subscriber.is::<NoSubscriber>());
    subscriber || log::max_level() != log::LevelFilter::Off
}
