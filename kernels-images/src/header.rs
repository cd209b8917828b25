//! The format and the size of a picture, read without decoding it.

/// The facts in the first bytes of a file, and for JPEG in its markers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) format: Format,
    /// The width and the height in pixels, neither of which is zero.
    pub(crate) size: [u32; 2],
}

/// A format that is decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    /// PNG. `is_wide_grey` is true for grey samples of 16 bits without a channel of alpha.
    Png {
        is_wide_grey: bool,
    },
    Jpeg,
}

/// The largest number of scans of a JPEG. Usual progressive files have ten. Each costs a pass over the picture, so that
/// a small file with many could take hours.
const MOST_SCANS: usize = 100;

const PNG: &[u8] = b"\x89PNG\r\n\x1a\n";
const JPEG: &[u8] = b"\xff\xd8\xff";

/// The bytes of a PNG up to the end of the fields of its header.
const PNG_HEADER: usize = 29;

impl Header {
    /// Reads the header of a PNG, or walks through the markers of a JPEG up to its end.
    ///
    /// # Errors
    /// Returns the problem with the file.
    pub(crate) fn read(bytes: &[u8]) -> Result<Self, String> {
        let header = if bytes.starts_with(PNG) {
            png(bytes)?
        } else if bytes.starts_with(JPEG) {
            jpeg(bytes)?
        } else if bytes.is_empty() {
            return Err("the file is empty".into());
        } else {
            return Err(foreign(bytes));
        };
        match header.size {
            [0, _] | [_, 0] => Err(format!(
                "the picture has no pixels: it is {} wide and {} high",
                header.size[0], header.size[1]
            )),
            _ => Ok(header),
        }
    }
}

fn png(bytes: &[u8]) -> Result<Header, String> {
    let header = bytes.get(..PNG_HEADER).ok_or_else(truncated)?;
    if header[8..16] != *b"\0\0\0\x0dIHDR" {
        return Err("the PNG is damaged: its first chunk is not its header".into());
    }
    let number = |at: usize| u32::from_be_bytes([0, 1, 2, 3].map(|byte| header[at + byte]));
    let (depth, colour) = (header[24], header[25]);
    Ok(Header {
        format: Format::Png {
            is_wide_grey: depth == 16 && colour == 0,
        },
        size: [number(16), number(20)],
    })
}

/// Returns the header of a complete JPEG. Decoders fill missing parts with grey, without an error.
fn jpeg(bytes: &[u8]) -> Result<Header, String> {
    let mut rest = Markers { bytes, at: 2 };
    let (mut size, mut scans) = (None, 0);
    loop {
        let marker = rest.next()?;
        match marker {
            END => break,
            // Markers without a segment, the restarts inside of a scan among them.
            0x01 | 0xd0..=0xd8 => continue,
            _ => {}
        }
        let segment = rest.segment()?;
        match marker {
            0xc4 | 0xc8 | 0xcc => {}
            0xc0..=0xcf => {
                let [_, h1, h0, w1, w0, ..] = *segment else {
                    return Err("the JPEG is damaged: its frame header is too short".into());
                };
                let [width, height] = [[w1, w0], [h1, h0]].map(u16::from_be_bytes).map(u32::from);
                if size.replace([width, height]).is_some() {
                    return Err("the JPEG is damaged: it has two frame headers".into());
                }
            }
            SCAN => scans += 1,
            _ => {}
        }
        if scans > MOST_SCANS {
            return Err(format!(
                "the JPEG has more than {MOST_SCANS} scans; save it anew"
            ));
        }
    }
    match size {
        Some(size) if scans > 0 => Ok(Header {
            format: Format::Jpeg,
            size,
        }),
        _ => Err("the JPEG is damaged: it has no picture".into()),
    }
}

const END: u8 = 0xd9;
const SCAN: u8 = 0xda;

/// The markers of a JPEG in order. Bytes between them, such as those of scans, are skipped.
struct Markers<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Markers<'a> {
    fn next(&mut self) -> Result<u8, String> {
        loop {
            let rest = self.bytes.get(self.at..).unwrap_or_default();
            let start = rest.iter().position(|byte| *byte == 0xff);
            let start = start.ok_or_else(truncated)?;
            let code = rest[start..].iter().position(|byte| *byte != 0xff);
            let code = start + code.ok_or_else(truncated)?;
            self.at += code + 1;
            // In a scan, a zero says that the byte before it is not a marker.
            if rest[code] != 0 {
                return Ok(rest[code]);
            }
        }
    }

    fn segment(&mut self) -> Result<&'a [u8], String> {
        let rest = self.bytes.get(self.at..).unwrap_or_default();
        let [high, low, ..] = *rest else {
            return Err(truncated());
        };
        let length = usize::from(u16::from_be_bytes([high, low]));
        if length < 2 {
            return Err("the JPEG is damaged: a segment is shorter than its length".into());
        }
        let segment = rest.get(2..length).ok_or_else(truncated)?;
        self.at += length;
        Ok(segment)
    }
}

pub(crate) fn truncated() -> String {
    "the file ends before the picture does; copy or download it again".into()
}

/// Returns the message about a file in another format.
fn foreign(bytes: &[u8]) -> String {
    const ASK: &str = "PNG and JPEG are supported; convert the picture";
    match image::guess_format(bytes) {
        Ok(format) => format!("the file is a picture in another format ({format:?}); {ASK}"),
        Err(_) => format!("the file is neither PNG nor JPEG; {ASK}"),
    }
}
