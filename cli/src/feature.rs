//! Commands that need a feature of the build.

/// An error about a command that needs a build with another feature.
#[derive(Debug, thiserror::Error)]
#[error("`{what}` needs a build with {features}")]
pub struct Missing {
    /// The command as typed.
    pub what: &'static str,
    /// The feature as an argument of Cargo, and other features that include it.
    pub features: &'static str,
}

/// Arguments of a command that this build does not have.
#[cfg(not(all(feature = "packages", feature = "remote", feature = "text")))]
#[derive(Debug, clap::Args)]
pub struct Ignored {
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    _arguments: Vec<std::ffi::OsString>,
}
