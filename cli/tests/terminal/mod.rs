//! Terminals for programs under test.

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};
use std::fs::File;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Opens a terminal with so many columns. Returns the end of the person, and that of the program.
pub fn open(columns: u16) -> [File; 2] {
    let control = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    grantpt(&control).unwrap();
    unlockpt(&control).unwrap();
    let name = ptsname(&control, Vec::new()).unwrap();
    let path = Path::new(std::ffi::OsStr::from_bytes(name.to_bytes()));
    let screen = File::options().read(true).write(true).open(path).unwrap();
    let size = Winsize {
        ws_row: 24,
        ws_col: columns,
        ws_xpixel: 0,
        ws_ypixel: 0,
    };
    tcsetwinsize(&screen, size).unwrap();
    [File::from(control), screen]
}
