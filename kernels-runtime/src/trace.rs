//! `BURN_KERNELS_TRACE_SITES=FILE`: the sites that ran fused, one name a line.
//!
//! `kernels bisect` learns by it which sites a command reaches, through any wrapper: every process
//! appends to the file. A site writes its name when it decides for a new kind of call, so names may
//! repeat. Unset, nothing is written.

use crate::registry::SiteSpec;
use std::fs::OpenOptions;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

static FILE: LazyLock<Option<PathBuf>> = LazyLock::new(|| {
    std::env::var_os("BURN_KERNELS_TRACE_SITES")
        .filter(|file| !file.is_empty())
        .map(PathBuf::from)
});

/// A site decided to run fused.
///
/// # Panics
/// The file can't be written: who asked for the trace would take its silence for an answer.
pub(crate) fn fused(site: &SiteSpec) {
    if let Some(file) = &*FILE {
        append(file, site).unwrap_or_else(|error| {
            panic!(
                "cannot append to {}, which BURN_KERNELS_TRACE_SITES names: {error}",
                file.display()
            )
        });
    }
}

/// In one write, so that the lines of several processes don't mix.
fn append(file: &Path, site: &SiteSpec) -> std::io::Result<()> {
    let line = format!("{}::{}\n", site.module, site.item);
    let mut file = OpenOptions::new().append(true).create(true).open(file)?;
    file.write_all(line.as_bytes())
}
