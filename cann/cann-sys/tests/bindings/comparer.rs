//! Tests of the comparison with a toolkit's headers, on headers written for it.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;

use crate::support::compare::{Declarations, Difference};
use crate::support::ours::{foreign, ours};

/// Writes `text` as a header and compares it with our declarations of the names in `keep`.
fn differences(case: &str, text: &str, keep: &[&str]) -> Option<Vec<Difference>> {
    if !crate::support::libclang_or_shout("the comparison of headers") {
        return None;
    }
    let folder = std::env::temp_dir().join(format!("cann-sys-{case}-{}", std::process::id()));
    fs::create_dir_all(&folder).expect("a folder");
    let header = folder.join("theirs.h");
    fs::write(&header, text).expect("a header");
    let (ours, names) = ours();
    let theirs = foreign(&header, &[], &names).expect("it is C++");
    fs::remove_dir_all(folder).expect("the folder is ours");
    Some(only(ours, keep).differences(&theirs))
}

fn only(mut all: Declarations, keep: &[&str]) -> Declarations {
    let keep: BTreeSet<_> = keep.iter().copied().collect();
    all.functions.retain(|name, _| keep.contains(name.as_str()));
    all.records.retain(|name, _| keep.contains(name.as_str()));
    all.constants.retain(|name, _| keep.contains(name.as_str()));
    all
}

/// The same declarations, with other names, tags, typedefs and order.
const AGREEING: &str = "
#include <cstddef>
#include <cstdint>
extern \"C\" {
typedef int32_t Status;
typedef Status aclnnStatus;
typedef int aclError;
typedef void *Handle;
typedef Handle aclrtStream;
typedef enum tagPolicy { ACL_MEM_MALLOC_HUGE_FIRST, ACL_MEM_MALLOC_HUGE_ONLY } aclrtMemMallocPolicy;
typedef struct aclTensor aclTensor;
typedef struct aclOpExecutor aclOpExecutor;
static const int ACL_ERROR_BAD_ALLOC = 200000;
typedef enum { ACL_MEM_LOCATION_TYPE_HOST, ACL_MEM_LOCATION_TYPE_DEVICE } aclrtMemLocationType;
typedef struct tagLocation { uint32_t id; aclrtMemLocationType type; } aclrtMemLocation;
aclError aclrtMalloc(void **a, unsigned long b, aclrtMemMallocPolicy c);
aclnnStatus aclnnSwiGluGetWorkspaceSize(const aclTensor *a, const int64_t b, const aclTensor *c, uint64_t *d, aclOpExecutor **e);
aclnnStatus aclnnSwiGlu(void *a, uint64_t b, aclOpExecutor *c, const aclrtStream d);
}";

const KEPT: &[&str] = &[
    "aclrtMalloc",
    "aclnnSwiGluGetWorkspaceSize",
    "aclnnSwiGlu",
    "aclrtMemLocation",
    "ACL_MEM_MALLOC_HUGE_ONLY",
    "ACL_ERROR_BAD_ALLOC",
];

#[test]
fn the_same_declarations_in_other_words_agree() {
    let Some(found) = differences("agreeing", AGREEING, KEPT) else {
        return;
    };
    assert_eq!(found, []);
}

/// CANN 9 declares C++ overloads of some functions.
#[test]
fn overloads_for_cxx_are_not_the_functions() {
    let overload = "inline int aclrtMalloc(int other) { return other; }\n";
    for text in [
        format!("{AGREEING}\n{overload}"),
        AGREEING.replacen("extern", &format!("{overload}extern"), 1),
    ] {
        let Some(found) = differences("overloads", &text, KEPT) else {
            return;
        };
        assert_eq!(found, []);
    }
}

#[test]
fn differences_are_named() {
    let changes = [
        (
            "const int64_t b, const aclTensor *c",
            "const int32_t b, const aclTensor *c",
            "aclnnSwiGluGetWorkspaceSize",
        ),
        (
            "const aclTensor *a, const int64_t b",
            "aclTensor *a, const int64_t b",
            "aclnnSwiGluGetWorkspaceSize",
        ),
        (
            "void *a, uint64_t b, aclOpExecutor *c",
            "uint64_t b, void *a, aclOpExecutor *c",
            "aclnnSwiGlu",
        ),
        (
            "aclrtMemMallocPolicy c)",
            "aclrtMemLocationType c)",
            "aclrtMalloc",
        ),
        ("aclError aclrtMalloc", "void aclrtMalloc", "aclrtMalloc"),
        (
            "ACL_MEM_MALLOC_HUGE_ONLY }",
            "ACL_MEM_MALLOC_HUGE_ONLY = 4 }",
            "ACL_MEM_MALLOC_HUGE_ONLY",
        ),
        ("200000", "200001", "ACL_ERROR_BAD_ALLOC"),
        (
            "uint32_t id; aclrtMemLocationType type;",
            "aclrtMemLocationType type; uint32_t id;",
            "aclrtMemLocation",
        ),
        ("uint32_t id;", "uint64_t id;", "aclrtMemLocation"),
    ];
    for (from, to, name) in changes {
        assert!(AGREEING.contains(from), "{from}");
        let Some(found) = differences("differing", &AGREEING.replace(from, to), KEPT) else {
            return;
        };
        let [
            Difference::Differs {
                name: found,
                ours,
                theirs,
            },
        ] = found.as_slice()
        else {
            panic!("{to}: {found:?}")
        };
        assert_eq!(found, name);
        assert_ne!(ours, theirs);
    }
}

/// One of our unions, as other versions may declare it.
const UNION: &str = "
#include <cstdint>
typedef union { uint16_t moduleId; uint32_t deviceId; uint8_t rsv[8]; } aclrtMallocAttrValue;
typedef enum aclrtTsId { ACL_TS_ID_RESERVED = 2 } aclrtTsId;
typedef enum tagType { ACL_MEM_LOCATION_TYPE_DEVICE = 1 } aclrtMemLocationType;
";

#[test]
fn what_grows_from_version_to_version_is_a_note() {
    let kept = [
        "aclrtMallocAttrValue",
        "ACL_TS_ID_RESERVED",
        "ACL_MEM_LOCATION_TYPE_DEVICE",
    ];
    let found = |text: &str| differences("growing", text, &kept);
    let Some(same) = found(UNION) else { return };
    assert_eq!(same, []);
    for (from, to, is_note) in [
        // There is one more member without more bytes, or the end of an enum has another value.
        ("uint8_t rsv", "uint32_t vaFlag; uint8_t rsv", true),
        ("RESERVED = 2", "RESERVED = 5", true),
        // The union is larger, has a larger alignment, lacks a member, or a member has another type.
        ("rsv[8]", "rsv[8]; uint32_t more[4]", false),
        ("uint8_t rsv", "uint64_t wide; uint8_t rsv", false),
        ("uint16_t moduleId; ", "", false),
        ("uint32_t deviceId", "int32_t deviceId", false),
        ("DEVICE = 1", "DEVICE = 3", false),
    ] {
        assert!(UNION.contains(from), "{from}");
        let Some(found) = found(&UNION.replace(from, to)) else {
            return;
        };
        let [difference] = found.as_slice() else {
            panic!("{to}: {found:?}")
        };
        assert_eq!(
            matches!(difference, Difference::Note { .. }),
            is_note,
            "{difference}"
        );
    }
}

#[test]
fn a_missing_function_is_named() {
    let text = AGREEING.replace("aclnnStatus aclnnSwiGlu(", "aclnnStatus aclnnSwiGluOther(");
    let Some(found) = differences("missing", &text, KEPT) else {
        return;
    };
    assert_eq!(found, [Difference::Missing("aclnnSwiGlu".to_owned())]);
}

#[test]
fn a_header_that_cannot_be_read_is_an_error() {
    if !crate::support::libclang_or_shout("the comparison of headers") {
        return;
    }
    let (_, names) = ours();
    assert!(foreign(&PathBuf::from("/nowhere/acl.h"), &[], &names).is_err());
}
