//! A hub on this machine stands in for the one of Hugging Face.

mod server;

use crate::support::{ByHand, fails, here, metadata};
use kernels_packages::{Error, Hub, Lock, Package, Repository, Revision, Settings, Token, Trust};
use serde_json::json;
use server::{Answer, Server};
use sha1::Digest as _;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::thread;
use std::time::Duration;
use tempfile::TempDir;

const ONE: &str = "1111111111111111111111111111111111111111";
const TWO: &str = "2222222222222222222222222222222222222222";
const TOKEN: &str = "hf_secret";

type Change = Box<dyn Fn(&str) -> Option<Answer> + Send + Sync>;

fn library(version: u64) -> Vec<u8> {
    ByHand {
        functions: if version == 1 {
            &["first"]
        } else {
            &["second"]
        },
        ..ByHand::default()
    }
    .bytes()
}

/// The files of a variant by their paths in the repository.
fn files(version: u64) -> BTreeMap<String, Vec<u8>> {
    let library = library(version);
    let files: [(&str, &[u8]); 2] = [("__init__.py", b"import torch"), ("_k.so", &library)];
    let mut metadata = metadata(&files);
    metadata.version = version;
    let place = format!("build/{}", here());
    let files = files
        .into_iter()
        .map(|(name, bytes)| (format!("{place}/{name}"), bytes.to_vec()));
    files
        .chain([(
            format!("{place}/metadata.json"),
            metadata.to_json().into_bytes(),
        )])
        .collect()
}

/// Answers as the hub does, for the repository `org/name` with two versions.
fn answer(path: &str) -> Answer {
    let path = path
        .strip_prefix("/api/kernels/org/name")
        .map_or(path, |rest| rest);
    if path == "/refs" {
        let one = |name: &str, commit: &str| json!({"name": name, "ref": format!("refs/heads/{name}"), "targetCommit": commit});
        let refs = json!({"branches": [one("main", TWO), one("v1", ONE), one("v2", TWO)], "tags": [one("v0", ONE)], "converts": []});
        return Answer::of(200, refs.to_string());
    }
    if let Some(rest) = path.strip_prefix("/tree/") {
        let (commit, folder) = rest.split_once('/').expect("a folder");
        return tree(commit, folder);
    }
    if let Some(rest) = path.strip_prefix("/kernels/org/name/resolve/") {
        let (commit, file) = rest.split_once('/').expect("a file");
        return match files(if commit == ONE { 1 } else { 2 }).remove(file) {
            Some(bytes) => Answer::of(200, bytes),
            None => Answer::of(404, "not there"),
        };
    }
    Answer::of(404, "not there")
}

fn tree(commit: &str, folder: &str) -> Answer {
    let names = [
        "torch-universal".to_owned(),
        here().to_string(),
        "tvm-ffi01-cu132-x86_64-linux".into(),
    ];
    if folder == "build" {
        let names = names.map(|name| json!({"type": "directory", "oid": ONE, "size": 0, "path": format!("build/{name}")}));
        return Answer::of(200, json!(names).to_string());
    }
    let entries = files(if commit == ONE { 1 } else { 2 }).into_iter().map(|(path, bytes)| {
        let size = bytes.len();
        match path.ends_with(".so") {
            true => {
                let oid: String = sha2::Sha256::digest(&bytes).iter().map(|byte| format!("{byte:02x}")).collect();
                json!({"type": "file", "oid": ONE, "size": size, "path": path, "lfs": {"oid": oid, "size": size, "pointerSize": 130}})
            }
            false => {
                let object = [format!("blob {size}\0").as_bytes(), &bytes].concat();
                let oid: String = sha1::Sha1::digest(object).iter().map(|byte| format!("{byte:02x}")).collect();
                json!({"type": "file", "oid": oid, "size": size, "path": path})
            }
        }
    });
    let bytecode =
        json!({"type": "file", "oid": ONE, "size": 3, "path": "build/x/__pycache__/a.pyc"});
    Answer::of(
        200,
        json!(entries.chain([bytecode]).collect::<Vec<_>>()).to_string(),
    )
}

fn hub_with(change: Change) -> Server {
    Server::start(move |path| change(path).unwrap_or_else(|| answer(path)))
}

fn settings(address: &str, cache: &Path) -> Settings {
    Settings {
        cache: cache.into(),
        endpoint: address.into(),
        offline: false,
        token: Some(Token::new(TOKEN).expect("a token")),
    }
}

fn repository() -> Repository {
    Repository::parse("org/name").expect("a repository")
}

fn fetch(settings: &Settings, revision: &str, lock: Option<&Lock>) -> Result<Package, Error> {
    let hub = Hub::with_patience(settings, Duration::from_millis(600)).expect("a hub");
    hub.open(
        &repository(),
        &Revision::parse(revision).expect("a revision"),
        &here(),
        lock,
    )
}

/// Fetches version 1 from a hub that answers some paths in another way.
fn fetched(
    change: impl Fn(&str) -> Option<Answer> + Send + Sync + 'static,
) -> (Result<Package, Error>, TempDir, Server) {
    let place = tempfile::tempdir().expect("a folder");
    let server = hub_with(Box::new(change));
    let package = fetch(&settings(&server.address, place.path()), "v1", None);
    (package, place, server)
}

/// Returns the files below a folder that are no locks.
fn left(folder: &Path) -> Vec<String> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        match entry.file_type().expect("a type").is_dir() {
            true => found.extend(left(&path)),
            false if path.extension().is_some_and(|end| end == "lock") => {}
            false => found.push(path.display().to_string()),
        }
    }
    found
}

#[test]
fn variants_are_listed_without_a_download() {
    let place = tempfile::tempdir().expect("a folder");
    let server = hub_with(Box::new(|_| None));
    let mut settings = settings(&server.address, place.path());
    let hub = Hub::new(&settings).expect("a hub");
    let variants = hub.variants(&repository(), &Revision::Version(1), &here());
    let variants = variants.expect("variants");
    let fits: Vec<_> = variants.iter().map(|one| one.against.is_none()).collect();
    assert_eq!(fits, [true, false, false], "{variants:?}");
    assert_eq!(variants[0].name, here().to_string());
    assert_eq!(left(place.path()), [""; 0]);
    let other = hub.variants(&repository(), &Revision::Version(9), &here());
    fails(other, "there is no branch or tag `v9`");
    settings.offline = true;
    let hub = Hub::new(&settings).expect("a hub");
    let variants = hub.variants(&repository(), &Revision::Version(1), &here());
    fails(
        variants,
        "the variants of org/name are known to the hub alone",
    );
}

#[test]
fn a_version_is_downloaded_once_and_then_read_offline() {
    let (package, place, server) = fetched(|_| None);
    let package = package.expect("a package");
    assert_eq!(package.functions().collect::<Vec<_>>(), ["first"]);
    assert!(
        package
            .to_string()
            .contains("org/name@v1, commit 111111111111"),
        "{package}"
    );
    let asked = server.asked();
    assert!(
        asked
            .iter()
            .all(|(path, token)| token.as_deref() == Some("Bearer hf_secret")
                && !path.contains("pycache")),
        "{asked:?}"
    );
    assert_eq!(
        asked
            .iter()
            .filter(|(path, _)| path.contains("/resolve/"))
            .count(),
        3
    );

    let online = settings(&server.address, place.path());
    assert_eq!(
        fetch(&online, "v2", None)
            .expect("a package")
            .functions()
            .collect::<Vec<_>>(),
        ["second"]
    );
    assert_eq!(
        fetch(&online, "main", None)
            .expect("a package")
            .metadata()
            .version,
        2
    );
    let before = server.asked().len();
    // The commit alone is asked for again. `__init__.py` of both versions is one file.
    fetch(&online, "v1", None).expect("a package");
    fetch(&online, ONE, None).expect("a package");
    assert_eq!(server.asked().len(), before + 1);
    assert_eq!(
        server
            .asked()
            .iter()
            .filter(|(path, _)| path.contains("/resolve/"))
            .count(),
        5
    );

    let offline = Settings {
        offline: true,
        endpoint: "http://127.0.0.1:1".into(),
        ..online
    };
    let again = fetch(&offline, "v1", None).expect("a package");
    assert_eq!(again.id(), package.id());
    fails(
        fetch(&offline, "v3", None),
        "`v3` of org/name is not in the cache",
    );
    let hub = Hub::new(&offline).expect("a hub");
    fails(hub.versions(&repository()), "HF_HUB_OFFLINE is set");
    assert!(
        left(place.path())
            .iter()
            .all(|name| !name.contains(".partial") && !name.contains(".link"))
    );
}

#[test]
fn a_lock_holds_the_commit_and_the_bytes() {
    let (package, place, server) = fetched(|_| None);
    let package = package.expect("a package");
    fails(package.check_trust(Trust::Folder), "needs a lock");
    let mut lock = Lock::default();
    lock.add(&package);
    package.check_trust(Trust::Lock(&lock)).expect("trust");

    // The branch moves on, the lock does not.
    let moved = hub_with(Box::new(|path| {
        path.ends_with("/refs").then(|| {
            Answer::of(
                200,
                json!({
        "branches": [{"name": "v1", "targetCommit": TWO}]})
                .to_string(),
            )
        })
    }));
    let elsewhere = tempfile::tempdir().expect("a folder");
    let new = settings(&moved.address, elsewhere.path());
    let locked = fetch(&new, "v1", Some(&lock)).expect("a package");
    locked.check_trust(Trust::Lock(&lock)).expect("trust");
    assert!(
        moved
            .asked()
            .iter()
            .all(|(path, _)| !path.ends_with("/refs"))
    );
    // Without the lock, version 1 is one that says it is 2.
    fails(
        fetch(&new, "v1", None),
        "version: the package says 2, and is that of version 1",
    );
    let other = fetch(&settings(&server.address, place.path()), "v2", None).expect("a package");
    fails(
        other.check_trust(Trust::Lock(&lock)),
        "the lock does not have this package",
    );
}

#[test]
fn versions_are_branches_and_tags() {
    let place = tempfile::tempdir().expect("a folder");
    let server = hub_with(Box::new(|_| None));
    let hub = Hub::new(&settings(&server.address, place.path())).expect("a hub");
    let versions = hub.versions(&repository()).expect("versions");
    let versions: Vec<_> = versions
        .iter()
        .map(|(version, commit)| (*version, commit.as_str()))
        .collect();
    assert_eq!(versions, [(2, TWO), (1, ONE), (0, ONE)]);
    fails(
        fetch(&settings(&server.address, place.path()), "v7", None),
        "there is no branch or tag `v7`; the versions are [1, 2, 0]",
    );
}

#[test]
fn what_a_hub_refuses_is_a_sentence_and_leaves_nothing() {
    type Reply = fn() -> Answer;
    let cases: [(&str, Reply, &str); 12] = [
        (
            "/refs",
            || Answer::of(401, "x"),
            "/api/kernels/org/name/refs: the hub refuses: the repository does not exist, or needs a token",
        ),
        (
            "/refs",
            || Answer::of(404, "x"),
            "the hub does not have this",
        ),
        ("/refs", || Answer::of(429, "x"), "too many requests"),
        (
            "/refs",
            || Answer::of(503, "x"),
            "the hub failed with status 503",
        ),
        (
            "/refs",
            || Answer::of(418, "x"),
            "the hub answered with status 418",
        ),
        (
            "/refs",
            || Answer::of(200, "<html>"),
            "the answer is not what a hub sends",
        ),
        (
            "/refs",
            || {
                Answer::of(
                    200,
                    r#"{"branches": [{"name": "v1", "targetCommit": "../../x"}]}"#,
                )
            },
            "`../../x` is not a commit",
        ),
        (
            "/build",
            || Answer::of(200, r#"[{"type": "directory", "path": "build/torch-cpu"}]"#),
            "torch-cpu: it is for PyTorch",
        ),
        (
            "/build",
            || Answer::of(200, "[]"),
            "no variant of the package runs here",
        ),
        (
            "recursive=true",
            || {
                Answer::of(
                    200,
                    format!(
                        r#"[{{"type": "file", "path": "build/{}/../../../x", "size": 1, "oid": "{ONE}"}}]"#,
                        here()
                    ),
                )
            },
            "the list of files has the path",
        ),
        (
            "recursive=true",
            || {
                Answer::of(
                    200,
                    format!(
                        r#"[{{"type": "file", "path": "build/{}/x", "size": 99999999999, "oid": "{ONE}"}}]"#,
                        here()
                    ),
                )
            },
            "99999999999 bytes, more than",
        ),
        (
            "recursive=true",
            || {
                Answer::of(
                    200,
                    format!(
                        r#"[{{"type": "file", "path": "build/{}/x", "size": 1, "oid": "../x"}}]"#,
                        here()
                    ),
                )
            },
            "no hash",
        ),
    ];
    for (end, reply, says) in cases {
        let (package, place, _server) = fetched(move |path| path.ends_with(end).then(reply));
        fails(package, says);
        assert_eq!(left(place.path()), Vec::<String>::new(), "{says}");
    }
    let place = tempfile::tempdir().expect("a folder");
    fails(
        fetch(&settings("http://127.0.0.1:1", place.path()), "v1", None),
        "the hub can't be reached",
    );
    fails(
        Hub::new(&settings("ftp://x", place.path())),
        "HF_ENDPOINT: `ftp://x` is not an address",
    );
    let error = Hub::new(&settings("https://user:word@x", place.path())).expect_err("an error");
    let error = error.to_string();
    assert!(
        error.contains("without user and password") && !error.contains("word@"),
        "{error}"
    );
}

#[test]
fn files_that_come_wrong_are_not_kept() {
    type Reply = fn() -> Answer;
    let cases: [(Reply, &str); 7] = [
        (
            || Answer {
                promised: Some(library(1).len()),
                ..Answer::of(200, &library(1)[..50])
            },
            "cut off after 50 bytes",
        ),
        (
            || Answer::of(200, &library(1)[..50]),
            "the file has 50 bytes instead of",
        ),
        (
            || Answer::of(200, [&library(1)[..], b"more"].concat()),
            "the answer has more than",
        ),
        (
            || {
                let mut bytes = library(1);
                bytes[300] ^= 1;
                Answer::of(200, bytes)
            },
            "not the one whose hash the hub lists",
        ),
        (
            || Answer {
                delays: [Duration::from_secs(3), Duration::ZERO],
                ..Answer::of(200, library(1))
            },
            "too slowly",
        ),
        (
            || Answer {
                delays: [Duration::ZERO, Duration::from_millis(20)],
                ..Answer::of(200, library(1))
            },
            "too slowly",
        ),
        (|| Answer::of(403, ""), "the hub refuses"),
    ];
    for (reply, says) in cases {
        let (package, place, server) = fetched(move |path| path.ends_with("_k.so").then(reply));
        fails(package, says);
        let kept = left(place.path());
        assert!(
            kept.iter().all(|name| !name.contains("_k.so")
                && !name.contains("refs")
                && !name.contains(".partial")),
            "{kept:?}"
        );
        // The next time, it is whole.
        let next = hub_with(Box::new(|_| None));
        fetch(&settings(&next.address, place.path()), "v1", None).expect("a package");
        drop(server);
    }
}

#[test]
fn tokens_stay_at_the_hub() {
    let store = Server::start(|path| match path.starts_with("/store/") {
        true => Answer::of(200, library(1)),
        false => Answer::of(404, ""),
    });
    let address = store.address.clone();
    let (package, _place, server) = fetched(move |path| match path {
        path if path.ends_with("_k.so") => {
            Some(Answer::to(302, &format!("{address}/store/file?key=secret")))
        }
        path if path.ends_with("metadata.json") && path.starts_with("/kernels") => Some(
            Answer::to(307, &format!("/kernels/org/name/resolve/{ONE}/moved")),
        ),
        path if path.ends_with("/moved") => files(1)
            .into_iter()
            .find(|(name, _)| name.ends_with(".json"))
            .map(|(_, bytes)| Answer::of(200, bytes)),
        _ => None,
    });
    package.expect("a package");
    assert_eq!(store.asked(), [("/store/file?key=secret".to_owned(), None)]);
    assert!(
        server
            .asked()
            .iter()
            .any(|(path, token)| path.ends_with("/moved") && token.is_some())
    );

    for (location, says) in [
        ("ftp://x/y", "an address that can't be read"),
        (
            "http://user:word@127.0.0.1/",
            "an address that can't be read",
        ),
        (
            "/kernels/org/name/resolve/again/_k.so",
            "elsewhere more than 5 times",
        ),
    ] {
        let (package, ..) =
            fetched(move |path| path.ends_with("_k.so").then(|| Answer::to(302, location)));
        fails(package, says);
    }
    let token = Token::new(TOKEN).expect("a token");
    assert!(!format!("{token:?}{:?}", settings("http://x", Path::new(""))).contains(TOKEN));
    fails(Token::new("a\nb"), "must be one word");
}

#[test]
fn two_downloads_at_once_end_well() {
    let place = tempfile::tempdir().expect("a folder");
    let server = hub_with(Box::new(|path| {
        path.contains("/resolve/").then(|| Answer {
            delays: [Duration::from_millis(50), Duration::ZERO],
            ..answer(path)
        })
    }));
    let settings = settings(&server.address, place.path());
    thread::scope(|scope| {
        let all: Vec<_> = (0..4)
            .map(|_| scope.spawn(|| fetch(&settings, "v1", None)))
            .collect();
        for one in all {
            one.join().expect("a thread").expect("a package");
        }
    });
    assert_eq!(
        server
            .asked()
            .iter()
            .filter(|(path, _)| path.contains("/resolve/"))
            .count(),
        3
    );
}

#[test]
fn a_file_that_was_changed_in_the_cache_is_downloaded_again() {
    let (package, place, server) = fetched(|_| None);
    let id = *package.expect("a package").id();
    let blobs = place.path().join("kernels--org--name/blobs");
    for entry in fs::read_dir(blobs).expect("blobs") {
        let path = entry.expect("a file").path();
        let mut bytes = fs::read(&path).expect("a file");
        *bytes.last_mut().expect("bytes") ^= 1;
        fs::write(path, bytes).expect("a file");
    }
    let again = fetch(&settings(&server.address, place.path()), "v1", None);
    assert_eq!(*again.expect("a package").id(), id);
}

#[test]
fn long_lists_come_in_parts() {
    let (package, ..) = fetched(|path| {
        let (start, part) = path.split_once("recursive=true")?;
        let all = answer(&format!("{start}recursive=true")).body;
        let all: Vec<serde_json::Value> = serde_json::from_slice(&all).expect("a list");
        let (first, rest) = all.split_at(1);
        Some(match part {
            "" => Answer {
                headers: vec![(
                    "link".into(),
                    format!("<{start}recursive=true&cursor=x>; rel=\"next\""),
                )],
                ..Answer::of(200, json!(first).to_string())
            },
            _ => Answer::of(200, json!(rest).to_string()),
        })
    });
    assert_eq!(package.expect("a package").functions().count(), 1);
}

#[test]
fn lists_that_do_not_end_here_are_refused() {
    for (next, says) in [
        (
            "http://127.0.0.1:1/api/more?key=secret",
            "the next part of the list is at `http://127.0.0.1:1/api/more`, which is not at this hub",
        ),
        ("/more", "is at `/more`, which is not at this hub"),
        (
            "/api/kernels/org/name/tree/x/more",
            "the list of files has more than 50 parts",
        ),
    ] {
        let (package, place, _server) = fetched(move |path| {
            let list = path.ends_with("recursive=true") || path.ends_with("/more");
            list.then(|| Answer {
                headers: vec![
                    ("link".into(), "</first>; rel=\"first\"".into()),
                    ("link".into(), format!("<{next}>; rel=\"next\"")),
                ],
                ..Answer::of(200, "[]")
            })
        });
        fails(package, says);
        assert_eq!(left(place.path()), [""; 0], "{says}");
    }
}

#[cfg(unix)]
#[test]
fn links_of_others_stay_and_own_ones_do_not() {
    let place = tempfile::tempdir().expect("a folder");
    let server = hub_with(Box::new(|_| None));
    let settings = settings(&server.address, place.path());
    let snapshots = place.path().join("kernels--org--name/snapshots");
    fs::create_dir_all(&snapshots).expect("a folder");
    // A process of the same number, in another container.
    let others = (0..1000).map(|number| format!(".link.{}.{number}", std::process::id()));
    let others: Vec<_> = others.map(|name| snapshots.join(name)).collect();
    for other in &others {
        fs::write(other, "").expect("a file");
    }
    fetch(&settings, "v1", None).expect("a package");
    assert!(others.iter().all(|other| other.is_file()));

    // A folder is where the link must be.
    let library = snapshots.join(TWO).join(format!("build/{}/_k.so", here()));
    fs::create_dir_all(library).expect("a folder");
    fails(fetch(&settings, "v2", None), "_k.so");
    let links = fs::read_dir(&snapshots).expect("snapshots").flatten();
    let links = links.filter(|entry| entry.file_name().as_encoded_bytes().starts_with(b".link"));
    assert_eq!(links.count(), others.len());
}
