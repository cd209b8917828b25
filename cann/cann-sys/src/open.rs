//! Open libraries, and looking up functions in them.

use std::path::Path;
use std::sync::Arc;

use crate::error::{Attempt, Outcome};
use crate::symbol::Symbol;

/// The visibility of a library's symbols to the libraries that are opened after it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Visibility {
    Global,
    Local,
}

/// Libraries in the order in which functions are looked up.
#[derive(Clone)]
pub(crate) struct Libraries {
    opened: Vec<platform::Handle>,
    attempts: Arc<[Attempt]>,
    hidden: Arc<[String]>,
}

impl Libraries {
    /// Opens those of `paths` that can be opened, in this order.
    pub(crate) fn open<'a>(
        paths: impl IntoIterator<Item = &'a Path>,
        visibility: Visibility,
        hidden: &Arc<[String]>,
    ) -> Self {
        let mut opened = Vec::new();
        let mut attempts = Vec::new();
        for path in paths {
            // The loader searches for a bare name.
            let named = path.components().count() == 1;
            let outcome = if !named && !path.exists() {
                Outcome::NotThere
            } else {
                match platform::open(path, visibility) {
                    Ok(handle) => {
                        opened.push(handle);
                        Outcome::Opened
                    }
                    Err(why) => Outcome::Refused(why),
                }
            };
            attempts.push(Attempt {
                library: path.to_path_buf(),
                outcome,
            });
        }
        Self {
            opened,
            attempts: attempts.into(),
            hidden: hidden.clone(),
        }
    }

    /// Returns these libraries, followed by those of `more`.
    pub(crate) fn and(&self, more: &Self) -> Self {
        Self {
            opened: self.opened.iter().chain(&more.opened).copied().collect(),
            attempts: self
                .attempts
                .iter()
                .chain(more.attempts.iter())
                .cloned()
                .collect(),
            hidden: self.hidden.clone(),
        }
    }

    pub(crate) fn any_opened(&self) -> bool {
        !self.opened.is_empty()
    }

    pub(crate) fn attempts(&self) -> &[Attempt] {
        &self.attempts
    }

    /// Looks up `name` in the libraries. The first that has it provides it.
    ///
    /// # Safety
    ///
    /// `F` must be the prototype of the function of that name.
    pub(crate) unsafe fn symbol<F: Copy>(&self, name: &'static str) -> Symbol<F> {
        let hidden = self.hidden.iter().any(|other| other == name);
        let pointer = if hidden {
            None
        } else {
            // SAFETY: the caller guarantees `F`.
            self.opened
                .iter()
                .find_map(|&library| unsafe { platform::symbol(library, name) })
        };
        Symbol::new(name, pointer, self.attempts.clone())
    }
}

#[cfg(target_os = "linux")]
mod platform {
    use std::path::Path;

    use libloading::os::unix::{Library, RTLD_GLOBAL, RTLD_LAZY, RTLD_LOCAL};

    use super::Visibility;

    /// A library that is never closed, because CANN's threads outlive any possible owner.
    pub(super) type Handle = &'static Library;

    pub(super) fn open(path: &Path, visibility: Visibility) -> Result<Handle, String> {
        let flags = match visibility {
            Visibility::Global => RTLD_LAZY | RTLD_GLOBAL,
            Visibility::Local => RTLD_LAZY | RTLD_LOCAL,
        };
        // SAFETY: constructors of CANN's libraries register operators and require nothing of the caller. By installing
        // or naming the file, the user states that it is such a library.
        let library = unsafe { Library::open(Some(path), flags) };
        let library = library.map_err(|error| error.to_string())?;
        Ok(Box::leak(Box::new(library)))
    }

    /// # Safety
    ///
    /// `F` must be the prototype of the function of that name.
    pub(super) unsafe fn symbol<F: Copy>(library: Handle, name: &str) -> Option<F> {
        // SAFETY: the caller guarantees `F`. The library is never closed, so the copy stays valid.
        unsafe { library.get::<F>(name.as_bytes()).ok().map(|symbol| *symbol) }
    }
}

#[cfg(not(target_os = "linux"))]
mod platform {
    use std::path::Path;

    use super::Visibility;

    pub(super) type Handle = ();

    pub(super) fn open(_: &Path, _: Visibility) -> Result<Handle, String> {
        Err("CANN is not on this platform".to_owned())
    }

    /// # Safety
    ///
    /// Requires nothing, because nothing is ever found.
    pub(super) unsafe fn symbol<F: Copy>(_: Handle, _: &str) -> Option<F> {
        None
    }
}
