//! Choices in files, which one run writes and others read.

use super::choice::{Choice, Size, Times};
use crate::device::Machine;
use crate::mode::Mode;
use crate::registry::FloatType;
use kernels_io::{FileError, Limit, escape, escape_lines};
use serde::{Deserialize, Serialize};
use std::collections::HashSet;
use std::path::Path;
use std::time::Duration;
use thiserror::Error;

/// The release of burn-kernels, on whose kernels the times depend. With debug assertions, their code is another one.
const RELEASE: &str = match cfg!(debug_assertions) {
    true => concat!(env!("CARGO_PKG_VERSION"), "+debug"),
    false => env!("CARGO_PKG_VERSION"),
};

/// The content of a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct File {
    release: String,
    #[serde(default, rename = "choices")]
    devices: Vec<OnDevice>,
}

/// The choices that were made on one device.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct OnDevice {
    device: Machine,
    #[serde(default)]
    class: Vec<Chosen>,
}

/// A class of calls: a site with an implementation that it can run, the dtype, the mode and the sizes of the tensors.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Subject {
    pub(crate) site: String,
    pub(crate) kernel: String,
    pub(crate) implementation: String,
    pub(crate) dtype: String,
    pub(crate) mode: Mode,
    pub(crate) tensors: Vec<Size>,
}

/// The choice for a class of calls.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Chosen {
    site: String,
    kernel: String,
    implementation: String,
    dtype: String,
    mode: Mode,
    tensors: Vec<Size>,
    choice: Choice,
    kernel_ns: u64,
    reference_ns: u64,
}

/// A choice with the times that it was made by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Decided {
    pub(crate) choice: Choice,
    pub(crate) times: Times,
}

/// The reason why a file of choices can't be used.
#[derive(Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum TuneError {
    /// A file that can't be read: the system refuses it, it is not a regular file, or it is too large.
    #[error("the file of tuned choices {0}")]
    Unreadable(String),
    /// A file that can't be written.
    #[error("the file of tuned choices {0}")]
    Unwritable(String),
    /// A file that does not hold choices.
    #[error("the file of tuned choices {}: {}", escape(.path), escape_lines(.problem))]
    File {
        /// The file.
        path: String,
        /// The problem with the file.
        problem: String,
    },
    /// A path that the text form of a policy can't hold.
    #[error(
        "a policy can't name the file `{}`: its path is empty, not Unicode, has a comma, or has blanks at its ends",
        escape(.path)
    )]
    Path {
        /// The path.
        path: String,
    },
}

/// The choices of a file, under the path by which a policy names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Choices {
    path: String,
    file: File,
}

impl Choices {
    /// Reads a file.
    ///
    /// # Errors
    /// Returns an error if it can't be read or does not hold choices.
    pub(crate) fn read(path: &str) -> Result<Self, TuneError> {
        const LIMIT: Limit = Limit::mib("a file of tuned choices", 16);
        let text = kernels_io::read_text(Path::new(path), LIMIT)
            .map_err(|error: FileError| TuneError::Unreadable(error.to_string()))?;
        let file = File::parse(&text).map_err(|problem| TuneError::File {
            path: path.to_owned(),
            problem,
        })?;
        let path = path.to_owned();
        Ok(Self { path, file })
    }

    /// Returns the path.
    pub(crate) fn path(&self) -> &str {
        &self.path
    }

    /// Returns the choice for a class of calls on a device, or `None` if the file has none.
    ///
    /// # Errors
    /// Returns the reason why the file has nothing for this device.
    pub(crate) fn find(
        &self,
        machine: &Machine,
        subject: &Subject,
    ) -> Result<Option<Decided>, String> {
        self.file.find(machine, subject).map_err(|why| {
            let path = escape(&self.path);
            format!("the choices in {path} are not used, because {why}")
        })
    }
}

impl File {
    /// Creates the content of a file from choices. Of several for one class, it has the first.
    pub(crate) fn of<'a>(
        choices: impl IntoIterator<Item = (&'a Machine, &'a Subject, Decided)>,
    ) -> Self {
        let mut devices: Vec<OnDevice> = Vec::new();
        for (machine, subject, decided) in choices {
            let chosen = Chosen::of(subject, decided);
            match devices.iter_mut().find(|known| known.device == *machine) {
                Some(known) if known.class.iter().any(|other| other.is_for(subject)) => {}
                Some(known) => known.class.push(chosen),
                None => devices.push(OnDevice {
                    device: machine.clone(),
                    class: vec![chosen],
                }),
            }
        }
        Self {
            release: RELEASE.to_owned(),
            devices,
        }
    }

    /// Reads TOML.
    ///
    /// # Errors
    /// Returns the problem if the text does not hold choices, or holds two for one class.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let file: Self =
            toml::from_str(text).map_err(|error| error.to_string().trim_end().to_owned())?;
        file.check()?;
        Ok(file)
    }

    /// Returns the TOML, which [`File::parse`] reads back to the same choices.
    pub(crate) fn to_toml(&self) -> String {
        toml::to_string(self).expect("text, numbers and tables are TOML")
    }

    fn check(&self) -> Result<(), String> {
        let mut devices = HashSet::new();
        for OnDevice { device, class } in &self.devices {
            if !devices.insert(device) {
                return Err(format!("there are two lists of choices for {device}"));
            }
            let mut subjects = HashSet::new();
            for chosen in class {
                let Chosen { site, dtype, .. } = chosen;
                if !FloatType::ALL.iter().any(|known| known.name() == dtype) {
                    return Err(format!("unknown dtype `{dtype}`"));
                }
                if !subjects.insert(chosen.subject()) {
                    return Err(format!("there are two choices for one class of {site}"));
                }
            }
        }
        Ok(())
    }

    fn find(&self, machine: &Machine, subject: &Subject) -> Result<Option<Decided>, String> {
        if self.release != RELEASE {
            return Err(format!(
                "they are of burn-kernels {}, and this is {RELEASE}",
                escape(&self.release)
            ));
        }
        let here = self.devices.iter().find(|known| known.device == *machine);
        match here {
            Some(here) if machine.is_told_apart() => {
                let chosen = here.class.iter().find(|chosen| chosen.is_for(subject));
                Ok(chosen.map(Chosen::decided))
            }
            Some(_) => Err(format!("nothing tells one {machine} from another")),
            None => Err(format!("none is of this device, {machine}")),
        }
    }
}

impl Chosen {
    fn of(subject: &Subject, decided: Decided) -> Self {
        // TOML has integers of 64 bits with a sign.
        let nanoseconds = |time: Duration| time.as_nanos().min(i64::MAX as u128) as u64;
        let Subject {
            site,
            kernel,
            implementation,
            dtype,
            mode,
            tensors,
        } = subject.clone();
        Self {
            site,
            kernel,
            implementation,
            dtype,
            mode,
            tensors,
            choice: decided.choice,
            kernel_ns: nanoseconds(decided.times.kernel),
            reference_ns: nanoseconds(decided.times.reference),
        }
    }

    fn subject(&self) -> Subject {
        Subject {
            site: self.site.clone(),
            kernel: self.kernel.clone(),
            implementation: self.implementation.clone(),
            dtype: self.dtype.clone(),
            mode: self.mode,
            tensors: self.tensors.clone(),
        }
    }

    fn is_for(&self, subject: &Subject) -> bool {
        self.site == subject.site && self.subject() == *subject
    }

    fn decided(&self) -> Decided {
        Decided {
            choice: self.choice,
            times: Times {
                kernel: Duration::from_nanos(self.kernel_ns),
                reference: Duration::from_nanos(self.reference_ns),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::DeviceKind;

    fn machine(name: Option<&str>) -> Machine {
        Machine {
            kind: DeviceKind::Cpu,
            capability: 3,
            name: name.map(str::to_owned),
        }
    }

    fn subject(site: &str) -> Subject {
        Subject {
            site: site.to_owned(),
            kernel: "npu_fused_rmsnorm".to_owned(),
            implementation: "cpu-simd".to_owned(),
            dtype: "f32".to_owned(),
            mode: Mode::Training,
            tensors: vec![Size::of(&[5, 7]), Size::of(&[7])],
        }
    }

    fn decided() -> Decided {
        Decided {
            choice: Choice::Reference,
            times: Times {
                kernel: Duration::from_nanos(2_000),
                reference: Duration::from_nanos(1_000),
            },
        }
    }

    fn file() -> File {
        let (here, there) = (machine(Some("here")), machine(Some("there")));
        let [a, b] = [subject("x::a"), subject("x::b")];
        File::of([
            (&here, &a, decided()),
            (&there, &a, decided()),
            (&here, &b, decided()),
        ])
    }

    #[test]
    fn what_is_written_is_read_back() {
        let toml = file().to_toml();
        assert_eq!(File::parse(&toml).as_ref(), Ok(&file()), "{toml}");
        assert!(toml.contains("tensors = [\"8x7\", \"1x7\"]"), "{toml}");
        let none = File::of([]);
        assert_eq!(File::parse(&none.to_toml()), Ok(none));
    }

    #[test]
    fn of_two_choices_for_one_class_the_first_is_written() {
        let (here, subject) = (machine(Some("here")), subject("x::a"));
        let longest = Duration::from_nanos(u64::MAX);
        let first = Decided {
            choice: Choice::Kernel,
            times: Times {
                kernel: longest,
                reference: longest,
            },
        };
        let file = File::of([(&here, &subject, first), (&here, &subject, decided())]);
        let read = File::parse(&file.to_toml()).unwrap();
        let found = read.find(&here, &subject).unwrap().unwrap();
        assert_eq!(found.choice, Choice::Kernel);
    }

    #[test]
    fn choices_are_found_by_device_and_class() {
        let found = |name, site| file().find(&machine(name), &subject(site));
        assert_eq!(found(Some("here"), "x::b"), Ok(Some(decided())));
        assert_eq!(found(Some("there"), "x::b"), Ok(None));
        let elsewhere = found(Some("elsewhere"), "x::a").unwrap_err();
        assert!(
            elsewhere.contains("this device, cpu 3 (elsewhere)"),
            "{elsewhere}"
        );
        let other = Subject {
            tensors: vec![Size::of(&[9, 7]), Size::of(&[7])],
            ..subject("x::a")
        };
        assert_eq!(file().find(&machine(Some("here")), &other), Ok(None));
    }

    #[test]
    fn a_device_without_a_name_is_not_known_again() {
        let unnamed = machine(None);
        let file = File::of([(&unnamed, &subject("x::a"), decided())]);
        let why = file.find(&unnamed, &subject("x::a")).unwrap_err();
        assert!(why.contains("nothing tells"), "{why}");
    }

    #[test]
    fn another_release_is_not_used() {
        let other = File {
            release: "0.0.0-other".to_owned(),
            ..file()
        };
        let why = other
            .find(&machine(Some("here")), &subject("x::a"))
            .unwrap_err();
        assert!(why.contains("of burn-kernels 0.0.0-other"), "{why}");
    }

    #[test]
    fn bad_files_are_errors() {
        let toml = file().to_toml();
        let twice = |part: &str| toml.replace(part, "here");
        for (toml, words) in [
            (String::new(), "release"),
            ("release = 1".to_owned(), "release"),
            (toml.replace("choice =", "chioce ="), "chioce"),
            (toml.replace("8x7", "7x7"), "invalid size `7x7`"),
            (toml.replace("\"f32\"", "\"i8\""), "unknown dtype `i8`"),
            (
                toml.replace("x::b", "x::a"),
                "two choices for one class of x::a",
            ),
            (twice("there"), "two lists of choices for cpu 3 (here)"),
            (toml.replace("= \"training\"", "= \"later\""), "later"),
            (toml.replace("kernel_ns = 2000", "kernel_ns = -1"), "-1"),
        ] {
            let error = File::parse(&toml).unwrap_err();
            assert!(error.contains(words), "{words}: {error}");
        }
    }

    #[test]
    fn a_file_that_cannot_be_used_is_named() {
        let error = Choices::read("/no/such.toml").unwrap_err().to_string();
        assert!(error.contains("/no/such.toml"), "{error}");
        let error = Choices::read("/proc/self/cmdline").unwrap_err().to_string();
        assert!(error.contains("/proc/self/cmdline"), "{error}");
    }
}
