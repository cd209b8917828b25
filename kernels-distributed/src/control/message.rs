//! Messages between a rank and rank 0: a length, a number for the kind, and its fields.
//!
//! Bytes of a peer are checked before anything of their size is allocated, and its text is escaped.

use kernels_io::escape;
use std::io::{self, Read, Write};

/// The longest message. Every kind is shorter.
const LONGEST: usize = 4096;
/// The longest text in a message.
const LONGEST_TEXT: usize = 3072;
/// Starts the first message of a connection. Its last byte is the version of these messages.
const MAGIC: &[u8; 8] = b"kgroup\x00\x01";

/// A secret of the group, which tells its ranks from strangers.
pub(crate) type Token = [u8; 32];

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Message {
    /// The first message of a rank.
    Hello { token: Token, rank: u32 },
    /// The answer to it.
    Welcome,
    /// A sign of life.
    Alive,
    /// A digest to be compared.
    Digest { digest: [u8; 32], what: String },
    /// The result of the comparison. An empty text means that all are equal.
    Verdict(String),
    /// The group has ended, for the reason that the text gives.
    Lost(String),
    /// The sender gives up, for the reason that the text gives.
    GivesUp(String),
    /// The sender leaves the group, as all ranks do at its end.
    Leaves,
}

/// The reason why no message could be read.
#[derive(Debug)]
pub(super) enum ReadError {
    /// The connection was closed or failed.
    Closed,
    /// The peer sent nothing within the timeout of the stream.
    Silent,
    /// The bytes are not a message.
    Malformed(&'static str),
}

impl Message {
    pub(super) fn write(&self, stream: &mut impl Write) -> io::Result<()> {
        let mut body = vec![0; 4];
        match self {
            Self::Hello { token, rank } => {
                body.push(0);
                body.extend_from_slice(MAGIC);
                body.extend_from_slice(token);
                body.extend_from_slice(&rank.to_le_bytes());
            }
            Self::Welcome => body.push(1),
            Self::Alive => body.push(2),
            Self::Digest { digest, what } => {
                body.push(3);
                body.extend_from_slice(digest);
                push_text(&mut body, what);
            }
            Self::Verdict(text) => push_kind(&mut body, 4, text),
            Self::Lost(text) => push_kind(&mut body, 5, text),
            Self::GivesUp(text) => push_kind(&mut body, 6, text),
            Self::Leaves => body.push(7),
        }
        let len = (body.len() - 4) as u32;
        body[..4].copy_from_slice(&len.to_le_bytes());
        stream.write_all(&body)
    }

    pub(super) fn read(stream: &mut impl Read) -> Result<Self, ReadError> {
        let mut len = [0; 4];
        stream.read_exact(&mut len)?;
        let len = u32::from_le_bytes(len) as usize;
        if len == 0 || len > LONGEST {
            return Err(ReadError::Malformed("a length beyond the limit"));
        }
        let mut body = vec![0; len];
        stream.read_exact(&mut body)?;
        Self::parse(&body)
    }

    fn parse(body: &[u8]) -> Result<Self, ReadError> {
        let (kind, fields) = body
            .split_first()
            .ok_or(ReadError::Malformed("an empty message"))?;
        let message = match kind {
            0 => {
                let fields = fields.strip_prefix(MAGIC);
                let fields = fields.ok_or(ReadError::Malformed("a program of another version"))?;
                let (token, rank) = fields.split_first_chunk().ok_or(SHORT)?;
                let rank = rank.try_into().map_err(|_| SHORT)?;
                Self::Hello {
                    token: *token,
                    rank: u32::from_le_bytes(rank),
                }
            }
            1 if fields.is_empty() => Self::Welcome,
            2 if fields.is_empty() => Self::Alive,
            3 => {
                let (digest, what) = fields.split_first_chunk().ok_or(SHORT)?;
                Self::Digest {
                    digest: *digest,
                    what: text(what)?,
                }
            }
            4 => Self::Verdict(text(fields)?),
            5 => Self::Lost(text(fields)?),
            6 => Self::GivesUp(text(fields)?),
            7 if fields.is_empty() => Self::Leaves,
            _ => return Err(ReadError::Malformed("a message of an unknown kind")),
        };
        Ok(message)
    }
}

const SHORT: ReadError = ReadError::Malformed("a message of a wrong length");

fn push_kind(body: &mut Vec<u8>, kind: u8, text: &str) {
    body.push(kind);
    push_text(body, text);
}

fn push_text(body: &mut Vec<u8>, text: &str) {
    body.extend_from_slice(&text.as_bytes()[..text.floor_char_boundary(LONGEST_TEXT)]);
}

fn text(bytes: &[u8]) -> Result<String, ReadError> {
    if bytes.len() > LONGEST_TEXT {
        return Err(ReadError::Malformed("a text beyond the limit"));
    }
    let text =
        str::from_utf8(bytes).map_err(|_| ReadError::Malformed("a text that is not UTF-8"))?;
    Ok(escape(text).into_owned())
}

impl From<io::Error> for ReadError {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => Self::Silent,
            _ => Self::Closed,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all() -> Vec<Message> {
        vec![
            Message::Hello {
                token: [7; 32],
                rank: 3,
            },
            Message::Welcome,
            Message::Alive,
            Message::Digest {
                digest: [9; 32],
                what: "data file".into(),
            },
            Message::Verdict(String::new()),
            Message::Verdict("rank 1 differs".into()),
            Message::Lost("rank 1 died".into()),
            Message::GivesUp("disk full".into()),
            Message::Leaves,
        ]
    }

    fn bytes(message: &Message) -> Vec<u8> {
        let mut bytes = Vec::new();
        message.write(&mut bytes).unwrap();
        bytes
    }

    #[test]
    fn messages_are_read_as_written() {
        for message in all() {
            assert_eq!(Message::read(&mut &bytes(&message)[..]).unwrap(), message);
        }
    }

    #[test]
    fn a_message_cut_anywhere_is_refused() {
        for message in all() {
            let bytes = bytes(&message);
            for end in 0..bytes.len() {
                assert!(
                    matches!(Message::read(&mut &bytes[..end]), Err(ReadError::Closed)),
                    "{message:?} {end}"
                );
            }
        }
    }

    /// Reads nothing beyond the length, as a reader that allocated first would wait for it.
    #[test]
    fn a_huge_length_is_refused_before_its_bytes() {
        for len in [0, LONGEST as u32 + 1, u32::MAX] {
            let mut stream = &len.to_le_bytes()[..];
            assert!(
                matches!(Message::read(&mut stream), Err(ReadError::Malformed(_))),
                "{len}"
            );
        }
    }

    #[test]
    fn text_of_a_peer_is_escaped_and_limited() {
        let read =
            |text: &str| Message::read(&mut &bytes(&Message::Lost(text.into()))[..]).unwrap();
        assert_eq!(read("\x1b[2J\n"), Message::Lost(r"\u{1b}[2J\n".into()));
        let long = "ö".repeat(LONGEST_TEXT);
        assert_eq!(read(&long), Message::Lost(long[..LONGEST_TEXT].into()));
        let mut wrong = bytes(&Message::Lost("a".into()));
        wrong[5] = 0xff;
        assert!(matches!(
            Message::read(&mut &wrong[..]),
            Err(ReadError::Malformed(_))
        ));
    }

    #[test]
    fn another_version_is_named() {
        let mut hello = bytes(&all()[0]);
        hello[5 + MAGIC.len() - 1] += 1;
        let Err(ReadError::Malformed(problem)) = Message::read(&mut &hello[..]) else {
            panic!("it was read")
        };
        assert!(problem.contains("version"), "{problem}");
    }

    /// Every change of a byte is read as a message of its own, or refused.
    #[test]
    fn changed_bytes_never_panic() {
        for message in all() {
            let bytes = bytes(&message);
            for place in 0..bytes.len() {
                for value in 0..=255 {
                    let mut changed = bytes.clone();
                    changed[place] = value;
                    if let Ok(read) = Message::read(&mut &changed[..]) {
                        let mut again = Vec::new();
                        read.write(&mut again).unwrap();
                        assert_eq!(Message::read(&mut &again[..]).unwrap(), read);
                    }
                }
            }
        }
    }
}
