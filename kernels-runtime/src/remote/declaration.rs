//! The declaration of a device, which a server sends before anything runs on it.

use super::wire::SCHEMA;
use crate::device::{DeviceKind, KernelOp};
use serde::{Deserialize, Serialize};

/// The release of this crate. Both sides must be of the same one, because results may change between releases.
pub(super) const RELEASE: &str = env!("CARGO_PKG_VERSION");

/// The number of 32-bit words of a declaration. It is sent as a tensor of a size that both sides know.
pub const WORDS: usize = 2048;

/// The facts that a server declares about a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// The kind, by which clients choose implementations.
    pub kind: DeviceKind,
    /// The capability; see [`DeviceKind::capability`].
    pub capability: u16,
    /// True if its kernels compute in f64 too.
    pub f64: bool,
    /// A readable name, such as the model of the processor.
    pub name: String,
    /// Other facts that implementations have to know before they choose, by name.
    pub facts: Vec<(String, String)>,
}

/// A device as its server declares it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Declaration {
    pub(super) schema: u64,
    pub(super) release: String,
    pub(super) kind: DeviceKind,
    pub(super) capability: u16,
    pub(super) f64: bool,
    pub(super) name: String,
    pub(super) facts: Vec<(String, String)>,
    /// The names and versions of operations.
    pub(super) kernels: Vec<(String, u32)>,
    /// An identification of the running machine and its files, if the system provides it.
    pub(super) host: Option<String>,
}

impl Declaration {
    /// Creates the declaration of a device with kernels for these operations.
    pub fn new(identity: Identity, ops: &[KernelOp]) -> Self {
        let Identity {
            kind,
            capability,
            f64,
            name,
            facts,
        } = identity;
        Self {
            schema: SCHEMA,
            release: RELEASE.to_owned(),
            kind,
            capability,
            f64,
            name,
            facts,
            kernels: ops
                .iter()
                .map(|op| (op.name().to_owned(), op.version()))
                .collect(),
            host: host(),
        }
    }

    /// Returns the operations that this build knows in the declared version.
    pub(super) fn kernels(&self) -> impl Iterator<Item = KernelOp> {
        KernelOp::ALL.iter().copied().filter(|op| {
            self.kernels
                .iter()
                .any(|(name, version)| name == op.name() && *version == op.version())
        })
    }

    pub(super) fn is_same_host(&self) -> bool {
        self.host.is_some() && self.host == host()
    }

    /// Returns 32-bit words: the length in bytes, then the JSON, then zeros.
    pub fn to_words(&self) -> Vec<i32> {
        to_words(&serde_json::to_string(self).expect("numbers and text are JSON"))
    }

    pub(super) fn from_words(words: &[i32]) -> Option<Self> {
        serde_json::from_str(&from_words(words)?).ok()
    }
}

/// Returns text as exactly [`WORDS`] words. Text that does not fit is cut off.
pub fn to_words(text: &str) -> Vec<i32> {
    let mut end = text.len().min(4 * (WORDS - 1));
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    let mut words = vec![end as i32];
    words.extend(text.as_bytes()[..end].chunks(4).map(|chunk| {
        let mut word = [0; 4];
        word[..chunk.len()].copy_from_slice(chunk);
        i32::from_le_bytes(word)
    }));
    words.resize(WORDS, 0);
    words
}

/// Reverses [`to_words`].
pub(super) fn from_words(words: &[i32]) -> Option<String> {
    let (length, words) = words.split_first()?;
    let mut bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    let length = usize::try_from(*length).ok()?;
    if length > bytes.len() {
        return None;
    }
    bytes.truncate(length);
    String::from_utf8(bytes).ok()
}

/// Returns the boot id of this machine and the mounts of this process. Two processes with the same values see the same
/// files. Returns `None` on systems other than Linux.
fn host() -> Option<String> {
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    let mounts = std::fs::read_link("/proc/self/ns/mnt").ok()?;
    Some(format!("{} {}", boot.trim(), mounts.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn identity(name: &str) -> Identity {
        Identity {
            kind: DeviceKind::Cpu,
            capability: 3,
            f64: true,
            name: name.to_owned(),
            facts: vec![("soc".to_owned(), "none".to_owned())],
        }
    }

    #[test]
    fn a_declaration_travels_as_words() {
        let declared = Declaration::new(identity("processor ü"), KernelOp::ALL);
        let words = declared.to_words();
        assert_eq!(words.len(), WORDS);
        assert_eq!(Declaration::from_words(&words), Some(declared.clone()));
        assert!(declared.kernels().eq(KernelOp::ALL.iter().copied()));
        assert_eq!(Declaration::from_words(&vec![0; WORDS]), None);
        assert_eq!(Declaration::from_words(&[9, 1, 2]), None);
        assert_eq!(Declaration::from_words(&[]), None);
    }

    #[test]
    fn operations_of_another_version_are_not_declared() {
        let mut declared = Declaration::new(identity(""), KernelOp::ALL);
        declared.kernels[0].1 += 1;
        declared.kernels.push(("later".to_owned(), 1));
        assert!(declared.kernels().eq(KernelOp::ALL.iter().copied().skip(1)));
    }

    #[test]
    fn text_too_long_is_cut_at_a_character() {
        let text = "ü".repeat(3 * WORDS);
        let read = from_words(&to_words(&text)).unwrap();
        assert!(text.starts_with(&read) && read.len() > 4 * WORDS - 8);
    }
}
