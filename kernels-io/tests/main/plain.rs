//! Tests that everything but a plain file is refused at once, and that nothing is read beyond the limit.
use kernels_io::{FileError, Limit, open, read, read_text};
use rustix::fs::{CWD, FileType, Mode, mknodat};
use std::fs;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::sync::mpsc::channel;
use std::time::Duration;
use tempfile::tempdir;

const SMALL: Limit = Limit {
    what: "a test",
    bytes: 10,
};

fn make_pipe(path: &Path) {
    mknodat(CWD, path, FileType::Fifo, Mode::RWXU, 0).unwrap();
}

/// Runs a function and fails instead of waiting forever.
fn at_once<T: Send + 'static>(run: impl FnOnce() -> T + Send + 'static) -> T {
    let (done, wait) = channel();
    std::thread::spawn(move || done.send(run()));
    let answer = wait.recv_timeout(Duration::from_secs(30));
    answer.expect("an answer at once")
}

#[test]
fn pipes_sockets_devices_and_folders_are_refused_at_once() {
    let folder = tempdir().unwrap();
    let pipe = folder.path().join("pipe\x1b[2J");
    make_pipe(&pipe);
    let socket = folder.path().join("socket");
    let _listening = UnixListener::bind(&socket).unwrap();
    let link = folder.path().join("link");
    std::os::unix::fs::symlink(&pipe, &link).unwrap();
    for (path, kind) in [
        (pipe, "a named pipe"),
        (link, "a named pipe"),
        (socket, "a socket"),
        ("/dev/zero".into(), "a device"),
        (folder.path().to_owned(), "a folder"),
    ] {
        let shown = kernels_io::escape_path(&path);
        let (opened, read) = at_once(move || (open(&path).map(drop), read(&path, SMALL)));
        for error in [opened.unwrap_err(), read.unwrap_err()] {
            let expected = format!("{shown} is {kind}; name a plain file");
            assert_eq!(error.to_string(), expected);
            assert_eq!(format!("{error:?}"), expected);
            assert!(!expected.contains('\x1b'));
        }
    }
}

/// A path can lead to something else each time it is used.
#[test]
fn a_file_that_becomes_a_pipe_meanwhile_is_never_waited_for() {
    let folder = tempdir().unwrap();
    let [path, file, pipe] = ["path", "file", "pipe"].map(|name| folder.path().join(name));
    fs::write(&path, "text").unwrap();
    let reader = {
        let path = path.clone();
        std::thread::spawn(move || {
            at_once(move || {
                for _ in 0..20_000 {
                    match read(&path, SMALL) {
                        Ok(bytes) => assert_eq!(bytes, b"text"),
                        Err(FileError::NotPlain { .. }) => {}
                        Err(other) => panic!("{other}"),
                    }
                }
            });
        })
    };
    while !reader.is_finished() {
        make_pipe(&pipe);
        fs::rename(&pipe, &path).unwrap();
        fs::write(&file, "text").unwrap();
        fs::rename(&file, &path).unwrap();
    }
    reader.join().unwrap();
}

#[test]
fn a_file_beyond_the_limit_is_not_read() {
    let folder = tempdir().unwrap();
    let path = folder.path().join("large");
    // A sparse file takes no space on disk; reading it would take all memory.
    fs::File::create(&path).unwrap().set_len(1 << 40).unwrap();
    let message = read(&path, SMALL).unwrap_err().to_string();
    assert!(
        message.contains("large has 1099511627776 bytes, but a test may have at most 10 bytes"),
        "{message}"
    );
    // This file reports a length of 0.
    let message = read(Path::new("/proc/self/status"), SMALL).unwrap_err();
    assert!(
        message.to_string().contains("more than 10 bytes"),
        "{message}"
    );

    fs::write(&path, "0123456789").unwrap();
    assert_eq!(read(&path, SMALL).unwrap(), b"0123456789");
    fs::write(&path, "0123456789a").unwrap();
    assert!(matches!(
        read(&path, SMALL),
        Err(FileError::TooLarge { size: 11, .. })
    ));
}

#[test]
fn what_is_not_text_says_where() {
    let folder = tempdir().unwrap();
    let path = folder.path().join("text");
    fs::write(&path, b"abc\xff").unwrap();
    let message = read_text(&path, SMALL).unwrap_err().to_string();
    assert!(
        message.contains("is not valid UTF-8 (first invalid byte: 3)"),
        "{message}"
    );
    let absent = folder.path().join("absent");
    let message = read_text(&absent, SMALL).unwrap_err().to_string();
    assert!(
        message.contains("absent: cannot read: No such file"),
        "{message}"
    );
}

/// An error names the thing that lies in the place of a file that was not fetched.
#[test]
fn pointers_of_git_lfs_are_named_and_files_that_begin_so_are_read() {
    const LARGE: Limit = Limit::mib("a test", 1);
    let folder = tempdir().unwrap();
    let path = folder.path().join("weights");
    let pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 1\n";
    fs::write(&path, pointer).unwrap();
    for error in [open(&path).unwrap_err(), read(&path, LARGE).unwrap_err()] {
        let text = error.to_string();
        assert!(text.contains("weights is a Git LFS pointer"), "{text}");
        assert!(text.contains("run `git lfs pull`"), "{text}");
    }
    let long = pointer.to_owned() + &" ".repeat(2000);
    for text in [
        &long,
        "version",
        "version https://git-lfs.github.com/SPEC/v1",
    ] {
        fs::write(&path, text).unwrap();
        assert_eq!(read_text(&path, LARGE).unwrap(), *text);
    }
}

#[test]
fn links_without_a_target_are_named() {
    let folder = tempdir().unwrap();
    let link = folder.path().join("link\x1b[2J");
    std::os::unix::fs::symlink("../absent\x07", &link).unwrap();
    assert!(kernels_io::is_there(&link));
    for path in [link.clone(), link.join("inside")] {
        for text in [
            open(&path).unwrap_err(),
            kernels_io::metadata(&path).unwrap_err(),
        ] {
            let text = text.to_string();
            assert!(
                text.contains("link\\u{1b}[2J is a broken link: ../absent\\u{7}"),
                "{text}"
            );
        }
    }
    assert!(!kernels_io::is_there(&folder.path().join("absent")));
}
