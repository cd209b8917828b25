//! The first message of a session, which is Burn's and contains the token.
//!
//! Burn's types are private, so they are repeated here: MessagePack, structs as arrays, variants by name. The tests
//! compare the relay's answers with those of a server of Burn, byte for byte.

use serde::{Deserialize, Serialize};

/// The version of Burn's protocol that this code follows.
const VERSION: u16 = 2;

/// A client's request for a session.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Init {
    version: u16,
    session: (u64,),
    pub(super) device_index: u32,
    #[serde(with = "serde_bytes")]
    pub(super) authorization: Vec<u8>,
}

#[derive(Serialize, Deserialize)]
enum Message {
    Init(Init),
}

/// The reason why no session begins, in the form that Burn sends to the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(super) enum Refusal {
    Unauthorized,
    IncompatibleProtocol { server_version: u16 },
}

#[derive(Serialize)]
enum Content {
    InitRefused(Refusal),
}

impl Init {
    /// Reads the message. Another version of the protocol is refused as Burn refuses it.
    pub(super) fn read(bytes: &[u8]) -> Result<Self, Refusal> {
        let incompatible = Refusal::IncompatibleProtocol {
            server_version: VERSION,
        };
        match rmp_serde::from_slice::<[Message; 1]>(bytes) {
            Ok([Message::Init(init)]) if init.version == VERSION => Ok(init),
            _ => Err(incompatible),
        }
    }

    /// Returns the message with another credential.
    pub(super) fn with_credential(self, credential: &[u8]) -> Vec<u8> {
        let authorization = credential.to_vec();
        let init = Self {
            authorization,
            ..self
        };
        rmp_serde::to_vec(&[Message::Init(init)]).expect("numbers and bytes are MessagePack")
    }
}

impl Refusal {
    /// Returns the message for the client.
    pub(super) fn to_bytes(self) -> Vec<u8> {
        let response = (Content::InitRefused(self), 0_u64);
        rmp_serde::to_vec(&response).expect("names and numbers are MessagePack")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_first_message_is_read_and_written_back() {
        // The message is `[{"Init": [2, [7], 1, "token"]}]`, as Burn encodes it.
        let bytes = [
            &[0x91, 0x81, 0xa4][..],
            b"Init",
            &[0x94, 2, 0x91, 7, 1, 0xc4, 5],
            b"token",
        ]
        .concat();
        let init = Init::read(&bytes).unwrap();
        assert_eq!(
            (init.device_index, &init.authorization[..]),
            (1, &b"token"[..])
        );
        assert_eq!(init.with_credential(b"token"), bytes);
        let another = Init::read(&bytes).unwrap().with_credential(b"secret");
        assert_eq!(Init::read(&another).unwrap().authorization, b"secret");
    }

    #[test]
    fn another_version_and_anything_else_are_refused_as_burn_does() {
        let init = |version| Init {
            version,
            session: (u64::MAX,),
            device_index: 0,
            authorization: Vec::new(),
        };
        let bytes = |messages: &[Message]| rmp_serde::to_vec(messages).unwrap();
        let other = bytes(&[Message::Init(init(VERSION + 1))]);
        let two = bytes(&[Message::Init(init(VERSION)), Message::Init(init(VERSION))]);
        // The header declares four billion elements.
        let long: &[u8] = &[0xdd, 0xff, 0xff, 0xff, 0xff, 0x81];
        for wrong in [
            &other[..],
            &two,
            &bytes(&[]),
            long,
            &[],
            &[0xff, 0x00, 0x13],
        ] {
            let refused = Init::read(wrong).unwrap_err();
            let server_version = VERSION;
            assert_eq!(refused, Refusal::IncompatibleProtocol { server_version });
        }
    }
}
