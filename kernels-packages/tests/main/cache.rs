//! The cache of Hugging Face's programs, without a network, and names of repositories.

use crate::support::{ByHand, fails, here, metadata, write_files};
use kernels_packages::{Cache, Cached, Commit, Lock, Repository, Revision, Trust};
use std::fs;
use std::path::Path;

const COMMIT: &str = "0123456789abcdef0123456789abcdef01234567";

/// Puts a package into a snapshot as Python does: links to blobs.
fn put(folder: &Path, version: u64) {
    let library = ByHand::default().bytes();
    let mut metadata = metadata(&[("_k.so", &library)]);
    metadata.version = version;
    let json = metadata.to_json();
    write_files(
        folder,
        &[
            ("blobs/library", &library),
            ("blobs/metadata", json.as_bytes()),
        ],
    );
    let snapshot = folder
        .join("snapshots")
        .join(COMMIT)
        .join("build")
        .join(here().to_string());
    fs::create_dir_all(&snapshot).expect("a folder");
    for (name, blob) in [("_k.so", "library"), ("metadata.json", "metadata")] {
        #[cfg(unix)]
        std::os::unix::fs::symlink(format!("../../../../blobs/{blob}"), snapshot.join(name))
            .expect("a link");
        #[cfg(not(unix))]
        fs::copy(folder.join("blobs").join(blob), snapshot.join(name)).expect("a file");
    }
}

#[test]
fn a_downloaded_package_is_read_without_a_network() {
    let place = tempfile::tempdir().expect("a folder");
    let cache = Cache::new(place.path());
    let (repository, version) = (
        Repository::parse("org/name").expect("a repository"),
        Revision::Version(1),
    );
    let open =
        |revision: &Revision, lock: Option<&Lock>| cache.open(&repository, revision, &here(), lock);
    fails(open(&version, None), "`v1` of org/name is not in the cache");
    for kind in ["kernels", "models"] {
        let folder = place.path().join(format!("{kind}--org--name"));
        put(&folder, 1);
        // Python writes no refs, and a commit needs none.
        fails(open(&version, None), "`v1` of org/name is not in the cache");
        let commit = Revision::parse(COMMIT).expect("a revision");
        let package = open(&commit, None).expect("a package");
        assert!(
            package
                .to_string()
                .starts_with("test-kernels v1 (org/name@0123456789abcdef"),
            "{package}"
        );
        write_files(&folder, &[("refs/v1", format!("{COMMIT}\n").as_bytes())]);
        let package = open(&version, None).expect("a package");
        fails(
            package.check_trust(Trust::Folder),
            "needs a lock, or trust in its repository",
        );
        package
            .check_trust(Trust::Repository(&repository))
            .expect("trust");
        let other = Repository::parse("org/other").expect("a repository");
        fails(
            package.check_trust(Trust::Repository(&other)),
            "the trust is in org/other",
        );
        let mut lock = Lock::default();
        lock.add(&package);
        fs::remove_file(folder.join("refs/v1")).expect("a file");
        let locked = open(&version, Some(&lock)).expect("a package");
        locked.check_trust(Trust::Lock(&lock)).expect("trust");
        write_files(&folder, &[("refs/v1", b"nothing")]);
        fails(open(&version, None), "refs/v1: `nothing` is not a commit");
        fs::remove_dir_all(folder).expect("a folder");
    }
}

#[test]
fn a_version_is_the_one_that_was_asked_for() {
    let place = tempfile::tempdir().expect("a folder");
    let folder = place.path().join("kernels--org--name");
    put(&folder, 2);
    write_files(
        &folder,
        &[
            ("refs/v1", COMMIT.as_bytes()),
            ("refs/main", COMMIT.as_bytes()),
        ],
    );
    let open = |revision: &str| {
        let revision = Revision::parse(revision).expect("a revision");
        Cache::new(place.path()).open(
            &Repository::parse("org/name").expect("a repository"),
            &revision,
            &here(),
            None,
        )
    };
    fails(
        open("v1"),
        "version: the package says 2, and is that of version 1",
    );
    open("main").expect("a package");
}

#[test]
fn names_that_lead_elsewhere_are_refused() {
    for text in [
        "",
        "name",
        "/name",
        "org/",
        "org/na/me",
        "../x",
        "org/..",
        "org/a--b",
        "org/.x",
        "a b/c",
        "ö/x",
    ] {
        fails(Repository::parse(text), "is not a repository");
    }
    assert_eq!(
        Repository::parse("kernels-community/relu_2.x")
            .expect("a repository")
            .to_string(),
        "kernels-community/relu_2.x"
    );
    for text in [
        "", "../x", "a/../b", "/a", "a/", "-x", "a//b", ".git/x", "a b", "a\u{1b}",
    ] {
        fails(Revision::parse(text), "is not the name of a branch");
    }
    assert_eq!(
        Revision::parse("v12").expect("a revision"),
        Revision::Version(12)
    );
    for text in ["v", "v01", "v1.0", "refs/pr/1", "main"] {
        assert_eq!(
            Revision::parse(text).expect("a revision"),
            Revision::Name(text.into())
        );
    }
}

#[test]
fn the_packages_of_a_cache_are_listed() {
    let place = tempfile::tempdir().expect("a folder");
    let cache = Cache::new(place.path().join("none"));
    assert_eq!(cache.repositories().expect("no package"), []);
    let cache = Cache::new(place.path());
    let [own, other] =
        ["kernels--org--name", "models--org--old"].map(|name| place.path().join(name));
    put(&own, 1);
    put(&other, 1);
    write_files(
        &own,
        &[
            ("refs/v1", COMMIT.as_bytes()),
            ("refs/pr/1", b"not a commit"),
        ],
    );
    // A model, and what is no repository.
    let snapshot = place
        .path()
        .join("models--org--llama/snapshots")
        .join(COMMIT);
    write_files(&snapshot, &[("config.json", b"{}")]);
    write_files(
        place.path(),
        &[
            ("datasets--org--text/refs/main", b"x"),
            ("kernels--org/refs/main", b"x"),
        ],
    );
    let listed = cache.repositories().expect("packages");
    let [first, second] = &listed[..] else {
        panic!("{listed:?}")
    };
    let repository = |cached: &Cached| cached.repository.to_string();
    assert_eq!(
        [repository(first), repository(second)],
        ["org/name", "org/old"]
    );
    let commit = Commit::parse(COMMIT).expect("a commit");
    assert_eq!(first.revisions, [(Revision::Version(1), commit.clone())]);
    assert_eq!(
        (&second.revisions[..], &second.commits[..]),
        (&[][..], &[commit][..])
    );

    let variants = |revision: &Revision| cache.variants(&first.repository, revision, &here());
    let [only] = &variants(&Revision::Version(1)).expect("variants")[..] else {
        panic!("several variants")
    };
    assert_eq!((&*only.name, &only.against), (&*here().to_string(), &None));
    fails(
        variants(&Revision::Version(2)),
        "`v2` of org/name is not in the cache",
    );

    write_files(&own, &[("refs/v1", b"nothing")]);
    fails(cache.repositories(), "refs/v1: `nothing` is not a commit");
}
