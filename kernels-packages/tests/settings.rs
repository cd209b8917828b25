//! The variables of Hugging Face's programs, in a process of its own: they are those of the process.

use kernels_packages::{Error, Settings, Token};
use std::path::Path;

const ALL: [&str; 10] = [
    "KERNELS_CACHE",
    "HF_HUB_CACHE",
    "HF_HOME",
    "XDG_CACHE_HOME",
    "HOME",
    "HF_ENDPOINT",
    "HF_HUB_OFFLINE",
    "HF_TOKEN",
    "HF_TOKEN_PATH",
    "HF_HUB_DISABLE_IMPLICIT_TOKEN",
];

fn with(variables: &[(&str, &str)]) -> Result<Settings, Error> {
    // SAFETY: the program has one test, and no other thread reads variables.
    unsafe {
        ALL.iter().for_each(|name| std::env::remove_var(name));
        (variables.iter()).for_each(|(name, value)| std::env::set_var(name, value));
    }
    Settings::from_env()
}

#[test]
fn settings_are_those_of_hugging_faces_programs() {
    let cache = |variables: &[(&str, &str)]| with(variables).expect("settings").cache;
    let home = ("HOME", "/nowhere");
    for (variables, expected) in [
        (&[home][..], "/nowhere/.cache/huggingface/hub"),
        (&[home, ("XDG_CACHE_HOME", "/x")], "/x/huggingface/hub"),
        (&[home, ("HF_HOME", "/h")], "/h/hub"),
        (&[("HF_HOME", "/h"), ("HF_HUB_CACHE", "/c")], "/c"),
        (
            &[
                ("HF_HOME", "/h"),
                ("HF_HUB_CACHE", "/c"),
                ("KERNELS_CACHE", "/k"),
            ],
            "/k",
        ),
        (
            &[home, ("HF_HUB_CACHE", "")],
            "/nowhere/.cache/huggingface/hub",
        ),
    ] {
        assert_eq!(cache(variables), Path::new(expected));
    }
    let plain = with(&[home]).expect("settings");
    assert_eq!(
        (plain.endpoint.as_str(), plain.offline, plain.token),
        ("https://huggingface.co", false, None)
    );
    let other = with(&[
        home,
        ("HF_ENDPOINT", "https://hub.test/"),
        ("HF_HUB_OFFLINE", "yes"),
    ])
    .expect("settings");
    assert_eq!(
        (other.endpoint.as_str(), other.offline),
        ("https://hub.test", true)
    );

    let place = tempfile::tempdir().expect("a folder");
    let folder = place.path().to_str().expect("text");
    let token = |text: &str| Some(Token::new(text).expect("a token"));
    std::fs::write(place.path().join("token"), "hf_file\n").expect("a file");
    std::fs::write(place.path().join("other"), "hf_other").expect("a file");
    let other = format!("{folder}/other");
    let of = |variables: &[(&str, &str)]| {
        with(&[&[("HF_HOME", folder)], variables].concat())
            .expect("settings")
            .token
    };
    assert_eq!(of(&[]), token("hf_file"));
    assert_eq!(of(&[("HF_TOKEN_PATH", &other)]), token("hf_other"));
    std::fs::write(place.path().join("empty"), "\n").expect("a file");
    assert_eq!(of(&[("HF_TOKEN_PATH", &format!("{folder}/empty"))]), None);
    assert_eq!(of(&[("HF_TOKEN", " hf_own ")]), token("hf_own"));
    assert_eq!(
        of(&[
            ("HF_TOKEN", "hf_own"),
            ("HF_HUB_DISABLE_IMPLICIT_TOKEN", "1")
        ]),
        None
    );
    let error = with(&[home, ("HF_TOKEN", "two words")])
        .expect_err("an error")
        .to_string();
    assert!(
        error.contains("must be one word") && !error.contains("two"),
        "{error}"
    );
    assert!(
        with(&[])
            .expect_err("an error")
            .to_string()
            .contains("set HF_HOME")
    );
}
