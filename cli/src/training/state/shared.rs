//! A state that one process of a run reads for all.

use super::{FILES, Name, Saved, States, unreadable};
use crate::training::ranks::Ranks;
use anyhow::Context;
use kernels_io::write_new;
use std::fs;

/// The newest state of a run, which the first process reads and the others receive.
pub struct Shared {
    /// The state.
    pub saved: Saved,
    /// The copy of the state on a process that received it.
    _copy: Option<tempfile::TempDir>,
}

impl Shared {
    /// Returns the newest of `states`, which the first process has, on all processes.
    ///
    /// # Errors
    /// Returns an error as [`States::newest`] does, or if a copy can't be written.
    pub fn newest(states: &States, ranks: &Ranks) -> anyhow::Result<Option<Self>> {
        let own = match ranks.leads() {
            true => states.newest()?,
            false => None,
        };
        let name = own.as_ref().and_then(|saved| saved.folder.file_name());
        let name = name.map(|name| name.to_string_lossy().into_owned());
        let name = ranks.of_first(name.unwrap_or_default().into_bytes())?;
        let Some(name) = Name::parse(&String::from_utf8(name)?) else {
            return Ok(None);
        };
        if ranks.size() == 1 {
            return Ok(own.map(|saved| Self { saved, _copy: None }));
        }
        // Their checksums stay: the first process has checked them.
        if let Some(saved) = own {
            for file in FILES {
                let bytes = fs::read(saved.folder.join(file));
                ranks.of_first(bytes.with_context(|| unreadable(&saved.folder))?)?;
            }
            return Ok(Some(Self { saved, _copy: None }));
        }
        let copy = tempfile::tempdir().context("a folder for a copy of the checkpoint")?;
        for file in FILES {
            let bytes = ranks.of_first(Vec::new())?;
            write_new(&copy.path().join(file), &bytes)?;
        }
        let saved = Saved::open(copy.path().to_owned())?.checked(name)?;
        Ok(Some(Self {
            saved,
            _copy: Some(copy),
        }))
    }
}
