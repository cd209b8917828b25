//! Tests of files and folders that appear complete or not at all, and of leftovers of killed processes.
use kernels_io::{FileError, NewFile, Staging, clear_leftovers, write_new, write_whole};
use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use tempfile::tempdir;

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap());
    let mut names: Vec<_> = entries
        .map(|entry| entry.file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

#[test]
fn a_file_is_replaced_whole_and_readable_as_others() {
    let folder = tempdir().unwrap();
    let path = folder.path().join("report.json");
    write_whole(&path, b"first").unwrap();
    write_whole(&path, b"second").unwrap();
    assert_eq!(fs::read(&path).unwrap(), b"second");
    assert_eq!(names(folder.path()), ["report.json"]);
    let other = folder.path().join("other");
    fs::write(&other, "").unwrap();
    assert_eq!(mode(&path), mode(&other));
}

#[test]
fn what_is_no_file_is_not_replaced() {
    let folder = tempdir().unwrap();
    // A socket stands for a device, which a failing test would replace for the whole machine.
    let socket = folder.path().join("socket");
    let listening = UnixListener::bind(&socket).unwrap();
    for path in [&*socket, folder.path()] {
        let error = write_whole(path, b"text").unwrap_err();
        assert!(matches!(error, FileError::NotPlain { .. }), "{error}");
    }
    drop(listening);
    fs::remove_file(&socket).unwrap();
    let message = write_whole(Path::new(".."), b"").unwrap_err().to_string();
    assert!(message.contains("ends in no name"), "{message}");
    let message = write_whole(&folder.path().join("no/file"), b"").unwrap_err();
    assert!(message.to_string().contains("cannot write"), "{message}");
    assert!(names(folder.path()).is_empty());
}

#[test]
fn a_folder_appears_with_all_in_it_or_not_at_all() {
    let folder = tempdir().unwrap();
    let target = folder.path().join("new/model");
    let staging = Staging::beside(&target).unwrap();
    write_new(&staging.path().join("src/a"), b"a").unwrap();
    assert!(write_new(&staging.path().join("src/a"), b"b").is_err());
    assert!(!target.exists());
    staging.publish().unwrap();
    assert_eq!(fs::read(target.join("src/a")).unwrap(), b"a");
    assert_eq!(names(target.parent().unwrap()), ["model"]);
    let other = folder.path().join("other");
    fs::create_dir(&other).unwrap();
    assert_eq!(mode(&target), mode(&other));

    // The old file stays, and no leftover is next to it.
    let second = Staging::beside(&target).unwrap();
    assert!(second.publish().is_err());
    assert_eq!(fs::read(target.join("src/a")).unwrap(), b"a");
    drop(Staging::beside(&target).unwrap());
    assert_eq!(names(target.parent().unwrap()), ["model"]);
}

#[test]
fn a_new_file_appears_whole_and_replaces_nothing() {
    let folder = tempdir().unwrap();
    let target = folder.path().join("new/model.gguf");
    let mut file = NewFile::beside(&target).unwrap();
    file.write(b"first, ").unwrap();
    file.write(b"second").unwrap();
    assert!(!target.exists());
    file.publish().unwrap();
    assert_eq!(fs::read(&target).unwrap(), b"first, second");
    let other = folder.path().join("other");
    fs::write(&other, "").unwrap();
    assert_eq!(mode(&target), mode(&other));

    let error = NewFile::beside(&target).unwrap_err().to_string();
    assert!(error.ends_with("cannot create: it exists"), "{error}");
    // A file that came later is not replaced either.
    let second = folder.path().join("new/second");
    let mut late = NewFile::beside(&second).unwrap();
    late.write(b"late").unwrap();
    fs::write(&second, "early").unwrap();
    assert!(late.publish().is_err());
    assert_eq!(fs::read(&second).unwrap(), b"early");
    drop(NewFile::beside(&folder.path().join("new/third")).unwrap());
    assert_eq!(names(target.parent().unwrap()), ["model.gguf", "second"]);
    let error = NewFile::beside(Path::new("..")).unwrap_err().to_string();
    assert!(error.contains("ends in no name"), "{error}");
}

/// Runs in another process for [`writer`]. Alone it does nothing.
#[test]
fn write_until_killed() {
    let Some(target) = std::env::var_os("WRITE_UNTIL_KILLED") else {
        return;
    };
    let staging = Staging::beside(Path::new(&target)).unwrap();
    write_new(&staging.path().join("half"), b"half").unwrap();
    println!("\nready {}", staging.path().display());
    std::thread::sleep(std::time::Duration::from_secs(60));
}

/// Starts a process that writes the target. Returns it with its unfinished folder.
fn writer(target: &Path) -> (Child, PathBuf) {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "unfinished::write_until_killed", "--nocapture"])
        .env("WRITE_UNTIL_KILLED", target)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let ready = lines
        .map(|line| line.unwrap())
        .find_map(|line| line.strip_prefix("ready ").map(PathBuf::from));
    (child, ready.expect("a folder"))
}

#[test]
fn what_a_killed_process_left_is_removed_by_the_next_and_what_is_in_use_stays() {
    let folder = tempdir().unwrap();
    let target = folder.path().join("model");
    let (mut killed, left) = writer(&target);
    let (mut living, in_use) = writer(&target);
    killed.kill().unwrap();
    killed.wait().unwrap();
    assert!(left.join("half").exists());

    let staging = Staging::beside(&target).unwrap();
    assert!(!left.exists(), "left over");
    assert!(in_use.join("half").exists(), "in use");
    clear_leftovers(folder.path());
    assert!(in_use.exists() && staging.path().exists());

    living.kill().unwrap();
    living.wait().unwrap();
    // Folders of others with similar names stay.
    let own = folder.path().join(".model.mine.partial");
    fs::create_dir(&own).unwrap();
    clear_leftovers(folder.path());
    assert!(!in_use.exists() && own.exists() && staging.path().exists());
}

#[test]
fn an_unfinished_file_is_removed_by_the_next_write_of_the_same() {
    let folder = tempdir().unwrap();
    let path = folder.path().join("report.json");
    let left = folder.path().join(".report.json.4711.aB3xYz.partial");
    let of_another = folder.path().join(".plan.toml.4711.aB3xYz.partial");
    fs::write(&left, "half").unwrap();
    fs::write(&of_another, "half").unwrap();
    write_whole(&path, b"whole").unwrap();
    assert!(!left.exists() && of_another.exists());
}
