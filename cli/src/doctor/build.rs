//! The build of this program, and the policy in force.

use super::report::Report;
use burn_kernels::policy;

/// Adds the versions of the program, of Burn and of the compiler, and the policy.
///
/// # Errors
/// Returns an error if the policy in the environment is invalid.
pub fn look(report: &mut Report) -> anyhow::Result<()> {
    let known = |version: &'static str| match version {
        "" => "of an unknown version",
        version => version,
    };
    let program = env!("CARGO_PKG_VERSION");
    let burn = known(env!("KERNELS_BURN"));
    // The compiler's output begins with its name.
    let rustc = env!("KERNELS_RUSTC").trim_start_matches("rustc ");
    let rustc = known(rustc);
    let text = format!("kernels {program}, Burn {burn}, built by rustc {rustc}");
    report.add("build", "ok", text, None);
    let source = match policy::from_env()? {
        Some(_) => "from BURN_KERNELS",
        None => "the default; BURN_KERNELS changes it",
    };
    let text = format!("`{}`, {source}", policy::current()?);
    report.add("policy", "ok", text, None);
    Ok(())
}
