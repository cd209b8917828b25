//! Tests that messages are read as they were written, and that other bytes are refused.

use super::*;

fn messages() -> Vec<Message> {
    let failure = Failure::new(7, "no: ä");
    let pair = Key::Pair {
        from: 2,
        to: 0,
        number: 9,
    };
    let mut messages = vec![
        Message::Welcome,
        Message::Refused(failure.clone()),
        Message::GaveUp(Key::All(3), failure.clone()),
        Message::Answer(pair, Ok(vec![vec![1, 2, 3], Vec::new()])),
        Message::Answer(Key::All(u64::MAX), Err(failure.clone())),
        Message::Part(Key::All(0), Err(failure)),
    ];
    let operations = REDUCTIONS.into_iter().flat_map(|by| {
        let root = 5;
        [
            Operation::Barrier,
            Operation::Broadcast { root },
            Operation::Reduce { by, root },
            Operation::AllReduce { by },
            Operation::ReduceScatter { by },
            Operation::AllGather,
            Operation::Scatter { root },
            Operation::AllToAll,
            Operation::Pair,
        ]
    });
    for operation in operations {
        for number in NUMBERS {
            let part = Part {
                operation,
                number,
                sends: vec![vec![0xff; 5], vec![1]],
                receives: vec![0, usize::MAX],
            };
            messages.push(Message::Part(pair, Ok(part)));
        }
    }
    messages
}

#[test]
fn messages_are_read_as_they_were_written() {
    let written: Vec<u8> = messages().iter().flat_map(Message::encode).collect();
    let mut rest = written.as_slice();
    for message in messages() {
        assert_eq!(Message::read(&mut rest).expect("a message"), message);
    }
    assert!(Message::read(&mut rest).is_err(), "the end");
}

#[test]
fn damaged_messages_are_refused_and_harm_nobody() {
    for message in messages() {
        let whole = message.encode();
        for length in 0..whole.len() {
            assert!(Message::read(&mut &whole[..length]).is_err());
            let body = &whole[8..];
            if let Some(shorter) = body.get(..length).filter(|short| short.len() < body.len()) {
                assert_eq!(Message::decode(shorter), None);
            }
        }
        for place in 0..whole.len() {
            for value in [0, 1, 0x7f, 0xff] {
                let mut changed = whole.clone();
                changed[place] = value;
                // Any result is right that is not a panic and takes no memory for bytes that are not there.
                let _ = Message::read(&mut changed.as_slice());
            }
        }
    }
    let mut long = (MOST + 1).to_le_bytes().to_vec();
    long.push(0);
    assert!(Message::read(&mut long.as_slice()).is_err());
}

#[test]
fn only_ranks_that_know_the_root_are_let_in() {
    let root = Root::new().expect("a root");
    let hello = Hello {
        token: root.token,
        process: 1,
        size: 2,
        rank: 1,
        device: 0,
    };
    let bytes = hello.encode();
    assert_eq!(bytes.len(), Hello::LENGTH);
    assert_eq!(Hello::decode(&bytes, &root), Some(hello));
    for place in 0..32 {
        let mut changed = bytes.clone();
        changed[place] ^= 1;
        assert_eq!(Hello::decode(&changed, &root), None, "{place}");
    }
    assert_eq!(Hello::decode(&bytes[1..], &root), None);
}
