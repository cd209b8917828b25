//! A hub on this machine.

#[path = "../../../../kernels-packages/tests/main/hub/server.rs"]
#[allow(dead_code, reason = "the server's own tests use more of it")]
mod server;

use super::{COMMIT, command, fails, files, here, json_of, passes};
use serde_json::{Value, json};
use server::{Answer, Server};
use sha2::{Digest, Sha256};
use std::process::Output;
use tempfile::TempDir;

/// Answers as the hub does, for the repository `org/name` with one version.
fn answer(path: &str) -> Answer {
    let api = path.strip_prefix("/api/kernels/org/name/");
    let build = format!("build/{}", here());
    let tree = format!("tree/{COMMIT}/build");
    let answer = match api {
        Some("refs") => json!({"branches": [{"name": "v1", "targetCommit": COMMIT}], "tags": []}),
        Some(of) if of == tree => {
            let names = [here(), "torch-universal".into()];
            json!(names.map(|name| json!({"type": "directory", "path": format!("build/{name}")})))
        }
        Some(of) if of.starts_with(&tree) => {
            let files = files(&["f"], None).into_iter().map(|(name, bytes)| {
                let oid: String = Sha256::digest(&bytes)
                    .iter()
                    .map(|byte| format!("{byte:02x}"))
                    .collect();
                let lfs = json!({"oid": oid, "size": bytes.len()});
                json!({"type": "file", "path": format!("{build}/{name}"), "lfs": lfs})
            });
            json!(files.collect::<Vec<_>>())
        }
        _ => {
            let name = path.strip_prefix(&format!("/kernels/org/name/resolve/{COMMIT}/{build}/"));
            let file = files(&["f"], None)
                .into_iter()
                .find(|(own, _)| Some(&**own) == name);
            return match file {
                Some((_, bytes)) => Answer::of(200, bytes),
                None => Answer::of(404, "not there"),
            };
        }
    };
    Answer::of(200, answer.to_string())
}

#[test]
fn a_package_of_a_hub_is_listed_downloaded_and_locked() {
    let (server, place) = (Server::start(answer), TempDir::new().expect("a folder"));
    let run = |args: &[&str]| -> Output {
        let mut command = command(place.path());
        let online = command
            .env("HF_HUB_OFFLINE", "0")
            .env("HF_ENDPOINT", &server.address);
        online
            .args(args)
            .current_dir(place.path())
            .output()
            .expect("the program starts")
    };
    let row = |cached: bool| json!([{"repository": "org/name", "revision": "v1", "commit": COMMIT, "cached": cached}]);
    assert_eq!(
        json_of(&run(&["list", "org/name", "--json"]))["packages"],
        row(false)
    );
    let listed = json_of(&run(&["list", "org/name@v1", "--json"]));
    assert_eq!(listed["variants"].as_array().map(Vec::len), Some(2));
    // Lists are no downloads.
    assert_eq!(
        json_of(&run(&["list", "--json"]))["packages"],
        Value::Array(vec![])
    );
    assert_eq!(
        json_of(&run(&["show", "org/name@v1", "--json"]))["commit"],
        COMMIT
    );
    assert_eq!(
        json_of(&run(&["list", "org/name", "--json"]))["packages"],
        row(true)
    );
    passes(&run(&["lock", "org/name@v1"]));
    passes(&run(&["lock", "--check"]));
    fails(
        &run(&["check", "org/name@v2"]),
        "there is no branch or tag `v2`; the versions are [1]",
    );
    fails(
        &run(&["list", "org/other"]),
        "org/other is not a folder here, but a repository of the hub: ",
    );
    // From here on nobody is asked.
    let asked = server.asked().len();
    passes(&super::run(place.path(), &["lock", "--check"]));
    passes(&super::run(place.path(), &["check", "org/name@v1"]));
    assert_eq!(server.asked().len(), asked);
}
