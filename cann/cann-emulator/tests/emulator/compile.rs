//! Tests of operators by name: descriptions, attributes, options, calls and dumps, and the modes of overflow.

use crate::common::*;
use std::ffi::{CStr, c_char};

use cann_emulator::abi::compile::*;
use cann_emulator::abi::data_buffer::*;
use cann_emulator::abi::overflow::*;
use cann_emulator::abi::runtime::{aclFinalize, aclrtFree};
use cann_sys::compile::*;
use cann_sys::errors::*;

#[test]
fn a_description_returns_what_was_set() {
    let session = Session::start();
    let shape = [2, 3, -1];
    // SAFETY: the arrays and places are valid, and handles are checked.
    unsafe {
        let made = aclCreateTensorDesc(ACL_FLOAT16, 3, shape.as_ptr(), ACL_FORMAT_ND);
        assert_eq!(aclGetTensorDescType(made), ACL_FLOAT16);
        assert_eq!(aclGetTensorDescFormat(made), ACL_FORMAT_ND);
        assert_eq!(aclGetTensorDescNumDims(made), 3);
        assert_eq!(
            aclGetTensorDescElementCount(made),
            0,
            "an axis is not known"
        );
        let mut length = 0;
        each! { assert_same:
            aclGetTensorDescDimV2(made, 1, &mut length), 0;
            length, 3;
            aclGetTensorDescDimV2(made, 3, &mut length), ACL_ERROR_INVALID_PARAM;
            aclGetTensorDescDimV2(made, 0, null_mut()), ACL_ERROR_INVALID_PARAM;
        }

        each! { assert_same:
            aclSetTensorShape(made, 2, shape.as_ptr()), 0;
            aclGetTensorDescElementCount(made), 6;
            aclGetTensorDescSize(made), 12;
            aclSetTensorShape(made, 1, [-3].as_ptr()), ACL_ERROR_INVALID_PARAM;
            aclSetTensorFormat(made, ACL_FORMAT_NCHW), 0;
            aclGetTensorDescFormat(made), ACL_FORMAT_NCHW;
            aclSetTensorPlaceMent(made, ACL_MEMTYPE_HOST), 0;
            aclSetTensorPlaceMent(made, aclMemType(7)), ACL_ERROR_INVALID_PARAM;
        }
        aclSetTensorDescName(made, c"x".as_ptr());
        assert_eq!(CStr::from_ptr(aclGetTensorDescName(made)), c"x");

        aclDestroyTensorDesc(made);
        each! { assert_same:
            aclGetTensorDescType(made), ACL_DT_UNDEFINED;
            aclSetTensorFormat(made, ACL_FORMAT_ND), ACL_ERROR_INVALID_PARAM;
        }
        assert!(message().contains("was destroyed"));
        assert!(aclCreateTensorDesc(ACL_FLOAT, -1, null(), ACL_FORMAT_ND).is_null());
        assert!(!aclCreateTensorDesc(ACL_FLOAT, 0, null(), ACL_FORMAT_ND).is_null());
    }
    assert_eq!(
        session.end(),
        ["1 of kind description of a tensor were never destroyed"]
    );
}

#[test]
fn attributes_take_every_kind_of_value() {
    let session = Session::start();
    let name = c"axis".as_ptr();
    let (counts, lists) = ([1, 2], [[1_i64].as_ptr(), [2, 3].as_ptr()]);
    let mut texts = [c"a".as_ptr(), c"b".as_ptr()];
    // SAFETY: the arrays are valid, and handles are checked.
    unsafe {
        let made = aclopCreateAttr();
        for status in [
            aclopSetAttrBool(made, name, 1),
            aclopSetAttrInt(made, name, -1),
            aclopSetAttrFloat(made, name, 0.5),
            aclopSetAttrString(made, name, name),
            aclopSetAttrDataType(made, name, ACL_BF16),
            aclopSetAttrListBool(made, name, 2, [0, 1].as_ptr()),
            aclopSetAttrListInt(made, name, 0, null()),
            aclopSetAttrListFloat(made, name, 1, [0.5].as_ptr()),
            aclopSetAttrListString(made, name, 2, texts.as_mut_ptr()),
            aclopSetAttrListListInt(made, name, 2, counts.as_ptr(), lists.as_ptr()),
        ] {
            assert_eq!(status, 0, "{}", message());
        }
        for status in [
            aclopSetAttrInt(made, null(), 1),
            aclopSetAttrInt(null_mut(), name, 1),
            aclopSetAttrString(made, name, null()),
            aclopSetAttrListInt(made, name, 1, null()),
            aclopSetAttrListInt(made, name, -1, [1].as_ptr()),
            aclopSetAttrListListInt(made, name, 1, [-1].as_ptr(), lists.as_ptr()),
        ] {
            assert_eq!(status, ACL_ERROR_INVALID_PARAM);
        }
        aclopDestroyAttr(made);
        assert_eq!(aclopSetAttrInt(made, name, 1), ACL_ERROR_INVALID_PARAM);
    }
    assert!(session.end().is_empty(), "all is destroyed");
}

fn option(option: aclCompileOpt) -> Result<String, aclError> {
    let mut room = [0_i8; 256];
    // SAFETY: the place has as many bytes as are said.
    unsafe {
        match aclGetCompileopt(option, room.as_mut_ptr().cast(), room.len()) {
            0 => Ok(CStr::from_ptr(room.as_ptr().cast())
                .to_string_lossy()
                .into()),
            code => Err(code),
        }
    }
}

#[test]
fn options_are_kept_and_have_a_size() {
    let _session = Session::start();
    // SAFETY: the texts are valid.
    unsafe {
        assert_eq!(option(ACL_OP_JIT_COMPILE).as_deref(), Ok("disable"));
        assert_eq!(aclGetCompileoptSize(ACL_OP_JIT_COMPILE), 256);
        assert_eq!(aclGetCompileoptSize(ACL_OP_DEBUG_OPTION), 0);
        assert_eq!(option(ACL_OP_DEBUG_OPTION), Err(ACL_ERROR_INVALID_PARAM));
        assert_eq!(aclSetCompileopt(ACL_OP_DETERMINISTIC, c"1".as_ptr()), 0);
        assert_eq!(option(ACL_OP_DETERMINISTIC).as_deref(), Ok("1"));
        let mut short = [0 as c_char; 1];
        let place = short.as_mut_ptr();
        assert_eq!(
            aclGetCompileopt(ACL_OP_DETERMINISTIC, place, 1),
            ACL_ERROR_INVALID_PARAM
        );
        for (option, value) in [
            (ACL_AUTO_TUNE_MODE, c"GA".as_ptr()),
            (aclCompileOpt(233), c"1".as_ptr()),
            (ACL_ALLOW_HF32, null()),
        ] {
            assert_eq!(aclSetCompileopt(option, value), ACL_ERROR_INVALID_PARAM);
        }
        assert_eq!(aclGetCompileoptSize(aclCompileOpt(233)), 0);
    }
}

/// Calls an operator with one input and one output.
fn call(name: *const c_char, data: *mut std::ffi::c_void, size: usize) -> aclError {
    // SAFETY: the arrays have one handle each, and handles are checked.
    unsafe {
        let mut description = aclCreateTensorDesc(ACL_FLOAT, 1, [4].as_ptr(), ACL_FORMAT_ND);
        let mut buffer = aclCreateDataBuffer(data, size);
        let own = aclopCreateAttr();
        let (input, output) = ([description.cast_const()], [description.cast_const()]);
        let (from, to) = ([buffer.cast_const()], [buffer]);
        let first = aclopCompileAndExecute(
            name,
            1,
            input.as_ptr(),
            from.as_ptr(),
            1,
            output.as_ptr(),
            to.as_ptr(),
            own,
            ACL_ENGINE_SYS,
            ACL_COMPILE_SYS,
            null(),
            null_mut(),
        );
        let (described, data) = (&raw mut description, &raw mut buffer);
        let second = aclopCompileAndExecuteV2(
            name,
            1,
            described,
            data,
            1,
            described,
            data,
            own,
            ACL_ENGINE_SYS,
            ACL_COMPILE_SYS,
            null(),
            null_mut(),
        );
        assert_eq!(first, second);
        aclopDestroyAttr(own);
        aclDestroyDataBuffer(buffer);
        aclDestroyTensorDesc(description);
        first
    }
}

#[test]
fn operators_by_name_are_unknown_and_their_operands_are_checked() {
    let session = Session::start();
    let data = malloc(16);
    each! { assert_same:
        call(c"Relu".as_ptr(), data, 16), ACL_ERROR_OP_NOT_FOUND;
        call(null(), data, 16), ACL_ERROR_INVALID_PARAM;
        call(c"Relu".as_ptr(), data, 1 << 40), ACL_ERROR_RT_PARAM_INVALID;
    }
    // SAFETY: it was allocated.
    unsafe { aclrtFree(data) };
    assert!(session.end().is_empty(), "all is destroyed");
}

#[test]
fn there_are_no_dumps_and_no_log() {
    let _session = Session::start();
    // SAFETY: the texts are valid.
    unsafe {
        each! { assert_same:
            aclmdlInitDump(), ACL_ERROR_FEATURE_UNSUPPORTED;
            aclmdlSetDump(c"dump.json".as_ptr()), ACL_ERROR_FEATURE_UNSUPPORTED;
            aclmdlSetDump(null()), ACL_ERROR_INVALID_PARAM;
            aclmdlFinalizeDump(), ACL_ERROR_FEATURE_UNSUPPORTED;
        }
        aclAppLog(0, c"f".as_ptr(), c"f.c".as_ptr(), 1, c"text".as_ptr());
        // The session still has the process, so that no other test starts in between.
        assert_eq!(aclFinalize(), 0);
        assert_eq!(aclmdlInitDump(), ACL_ERROR_UNINITIALIZE);
    }
}

#[test]
fn results_beyond_a_dtype_are_infinite() {
    let _session = Session::start();
    let (mut mode, mut on) = (ACL_RT_OVERFLOW_MODE_UNDEF, 7);
    // SAFETY: the places are variables.
    unsafe {
        assert_eq!(aclrtSetDeviceSatMode(ACL_RT_OVERFLOW_MODE_INFNAN), 0);
        assert_eq!(aclrtGetDeviceSatMode(&mut mode), 0);
        assert_eq!(mode, ACL_RT_OVERFLOW_MODE_INFNAN);
        let refused = aclrtSetDeviceSatMode(ACL_RT_OVERFLOW_MODE_SATURATION);
        assert_eq!(refused, ACL_ERROR_RT_FEATURE_NOT_SUPPORT);
        let refused = aclrtSetDeviceSatMode(ACL_RT_OVERFLOW_MODE_UNDEF);
        assert_eq!(refused, ACL_ERROR_RT_PARAM_INVALID);
        assert_eq!(aclrtSetStreamOverflowSwitch(null_mut(), 0), 0);
        let refused = aclrtSetStreamOverflowSwitch(null_mut(), 1);
        assert_eq!(refused, ACL_ERROR_RT_FEATURE_NOT_SUPPORT);
        assert_eq!(aclrtGetStreamOverflowSwitch(null_mut(), &mut on), 0);
        assert_eq!(on, 0);
    }
}
