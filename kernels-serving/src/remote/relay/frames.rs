//! The frames of a connection, which are counted while they pass.

use super::values::{MOST, Values};
use std::io::Cursor;
use std::time::Duration;
use tokio::time::Instant;
use tungstenite::protocol::frame::FrameHeader;
use tungstenite::protocol::frame::coding::{Data, OpCode};

/// The reason why a client's frames are not passed on.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Unfit {
    #[error("a message of {bytes} bytes, where one may have {most} (`--max-message`)")]
    Large { bytes: u64, most: u64 },
    #[error("a message of more than {0} values, such as tasks and their numbers; send it in parts")]
    Many(u64),
    #[error("invalid WebSocket frame: {0}")]
    Malformed(String),
}

/// A reader of the headers of frames in a stream of bytes. Of the contents, it counts the values.
#[derive(Debug)]
pub(super) struct Meter {
    /// The maximum size of a message with all its frames, in bytes.
    most: u64,
    /// The part of a header that has arrived, if it is incomplete.
    header: Vec<u8>,
    /// The bytes of the frame that have not arrived yet.
    left: u64,
    /// The bytes of the message's frames so far.
    message: u64,
    /// True if a message has begun.
    has_message: bool,
    /// The mask of the frame, turned to its next byte. `None` in a control frame.
    mask: Option<[u8; 4]>,
    values: Values,
}

/// The length of the longest header: two bytes, eight of the length, four of the mask.
const HEADER: usize = 14;

impl Meter {
    pub(super) fn new(most: u64) -> Self {
        Self {
            most,
            header: Vec::with_capacity(HEADER),
            left: 0,
            message: 0,
            has_message: false,
            mask: None,
            values: Values::default(),
        }
    }

    /// Returns `true` if a frame other than a control frame has passed.
    pub(super) fn has_message(&self) -> bool {
        self.has_message
    }

    /// Counts the frames that begin in the next bytes of the stream.
    pub(super) fn pass(&mut self, mut bytes: &[u8]) -> Result<u32, Unfit> {
        let mut begun = 0;
        loop {
            let inside =
                usize::try_from(self.left).map_or(bytes.len(), |left| left.min(bytes.len()));
            self.left -= inside as u64;
            self.count(&bytes[..inside])?;
            bytes = &bytes[inside..];
            if bytes.is_empty() {
                return Ok(begun);
            }
            let before = self.header.len();
            let taken = bytes.len().min(HEADER - before);
            self.header.extend_from_slice(&bytes[..taken]);
            let mut cursor = Cursor::new(&self.header);
            let parsed = FrameHeader::parse(&mut cursor);
            let end = cursor.position();
            let Some((header, length)) =
                parsed.map_err(|error| Unfit::Malformed(error.to_string()))?
            else {
                // All bytes are in `header` now.
                return Ok(begun);
            };
            // The previous bytes were not a complete header, so this header ends after them.
            bytes = &bytes[end as usize - before..];
            self.header.clear();
            self.begin(&header, length)?;
            begun += 1;
        }
    }

    /// Counts the values in bytes of the frame.
    fn count(&mut self, bytes: &[u8]) -> Result<(), Unfit> {
        if let Some(mask) = &mut self.mask {
            self.values.pass(bytes.len(), |at| bytes[at] ^ mask[at % 4]);
            mask.rotate_left(bytes.len() % 4);
        }
        match self.values.count() > MOST {
            true => Err(Unfit::Many(MOST)),
            false => Ok(()),
        }
    }

    fn begin(&mut self, header: &FrameHeader, length: u64) -> Result<(), Unfit> {
        self.left = length;
        self.mask = None;
        let OpCode::Data(data) = header.opcode else {
            // Control frames may come between the frames of a message. Burn refuses long ones.
            return self.fits(length);
        };
        self.has_message = true;
        self.mask = Some(header.mask.unwrap_or_default());
        if data != Data::Continue {
            self.message = 0;
            self.values = Values::default();
        }
        self.message = self.message.saturating_add(length);
        self.fits(self.message)
    }

    fn fits(&self, bytes: u64) -> Result<(), Unfit> {
        let most = self.most;
        if bytes > most {
            return Err(Unfit::Large { bytes, most });
        }
        Ok(())
    }
}

/// The limit of frames per second. A client that sends more has to wait.
#[derive(Debug)]
pub(super) struct Rate {
    most: u32,
    since: Instant,
    passed: u32,
}

const SECOND: Duration = Duration::from_secs(1);

impl Rate {
    pub(super) fn new(most: u32) -> Self {
        Self {
            most,
            since: Instant::now(),
            passed: 0,
        }
    }

    /// Counts frames, and waits if there were too many in this second.
    pub(super) async fn spend(&mut self, frames: u32) {
        self.passed = self.passed.saturating_add(frames);
        while self.passed > self.most {
            tokio::time::sleep_until(self.since + SECOND).await;
            // Bytes that were read beyond the limit count in the next seconds.
            self.passed -= self.most;
            self.since = Instant::now();
        }
        if self.since.elapsed() > SECOND {
            (self.since, self.passed) = (Instant::now(), 0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tungstenite::protocol::frame::coding::Control;

    fn frame(opcode: OpCode, is_final: bool, length: usize) -> Vec<u8> {
        let header = FrameHeader {
            is_final,
            opcode,
            mask: Some([1, 2, 3, 4]),
            ..FrameHeader::default()
        };
        let mut bytes = Vec::new();
        header.format(length as u64, &mut bytes).unwrap();
        bytes.resize(bytes.len() + length, 0x82);
        bytes
    }

    #[test]
    fn frames_are_counted_however_the_bytes_are_cut() {
        let stream: Vec<u8> = [0, 1, 125, 126, 200, 65535, 65536, 70000]
            .into_iter()
            .flat_map(|length| frame(OpCode::Data(Data::Binary), true, length))
            .collect();
        for cut in [1, 2, 3, 7, 13, 14, 15, 1000, stream.len()] {
            let mut meter = Meter::new(70000);
            let counts = stream.chunks(cut).map(|chunk| meter.pass(chunk).unwrap());
            assert_eq!(counts.sum::<u32>(), 8, "in pieces of {cut}");
            assert_eq!((meter.left, meter.header.len()), (0, 0));
        }
    }

    #[test]
    fn a_message_that_is_too_large_does_not_pass_in_one_frame_or_many() {
        let most = 1000;
        let whole = frame(OpCode::Data(Data::Binary), true, 1001);
        // The header states the size, so no byte of the content has to arrive.
        let refused = Meter::new(most).pass(&whole[..8]);
        assert_eq!(refused, Err(Unfit::Large { bytes: 1001, most }));
        let mut meter = Meter::new(most);
        let parts = [
            frame(OpCode::Data(Data::Binary), false, 500),
            frame(OpCode::Control(Control::Ping), true, 100),
            frame(OpCode::Data(Data::Continue), false, 500),
        ];
        for part in &parts {
            assert_eq!(meter.pass(part), Ok(1));
        }
        let last = frame(OpCode::Data(Data::Continue), true, 1);
        assert_eq!(meter.pass(&last), Err(Unfit::Large { bytes: 1001, most }));
        // The count starts again with the next message.
        let mut meter = Meter::new(most);
        for _ in 0..3 {
            meter
                .pass(&frame(OpCode::Data(Data::Binary), true, 1000))
                .unwrap();
        }
        let reserved = Meter::new(most).pass(&[0x83, 0x80, 0, 0, 0, 0]);
        assert!(matches!(reserved, Err(Unfit::Malformed(_))), "{reserved:?}");
    }

    #[test]
    fn a_message_of_too_many_values_does_not_pass() {
        let small = |data: Data, values: usize| {
            let mask = [7, 99, 0, 255];
            let header = FrameHeader {
                opcode: OpCode::Data(data),
                mask: Some(mask),
                is_final: false,
                ..FrameHeader::default()
            };
            let mut bytes = Vec::new();
            header.format(values as u64, &mut bytes).unwrap();
            bytes.extend((0..values).map(|at| 0xc0 ^ mask[at % 4]));
            bytes
        };
        let half = MOST as usize / 2;
        let mut meter = Meter::new(1 << 30);
        for (data, cut) in [(Data::Binary, 1001), (Data::Continue, 4096)] {
            for part in small(data, half).chunks(cut) {
                meter.pass(part).unwrap();
            }
        }
        let more = small(Data::Continue, 1);
        assert_eq!(meter.pass(&more), Err(Unfit::Many(MOST)));
        // The count starts again with the next message.
        meter = Meter::new(1 << 30);
        for _ in 0..3 {
            meter.pass(&small(Data::Binary, half)).unwrap();
        }
    }

    #[test]
    fn who_sends_too_many_frames_waits() {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .build()
            .unwrap();
        runtime.block_on(async {
            let begun = Instant::now();
            let mut rate = Rate::new(1000);
            for _ in 0..1000 {
                rate.spend(1).await;
            }
            assert!(begun.elapsed() < SECOND);
            rate.spend(1).await;
            assert!(begun.elapsed() >= SECOND);
            assert_eq!(rate.passed, 1);
        });
    }
}
