//! Tests of the cache of keys and values: what it returns, and that it copies nothing.

use burn::tensor::{DType, Device, Distribution, FloatDType, Tensor};
use burn_kernels::nn::{CacheError, KvCache};
use burn_kernels::semantics::HeadLayout;
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

thread_local! {
    static BYTES: Cell<usize> = const { Cell::new(0) };
}

/// The system's allocator with a counter of the bytes that each thread asks for.
struct Counting;

// SAFETY: every call is passed to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        BYTES.set(BYTES.get() + layout.size());
        // SAFETY: the caller fulfils the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
        // SAFETY: the caller fulfils the contract of `dealloc`; `place` came from `System`.
        unsafe { System.dealloc(place, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

/// Returns the bytes that this thread asks for in `run`.
fn bytes(run: impl FnOnce()) -> usize {
    let before = BYTES.get();
    run();
    BYTES.get() - before
}

fn random(shape: [usize; 4]) -> Tensor<4> {
    Tensor::random(shape, Distribution::Normal(0.0, 1.0), &Device::flex())
}

/// Returns the last `kept` positions of all that were appended.
fn last(all: &[Tensor<4>], axis: usize, kept: usize) -> Tensor<4> {
    let all = Tensor::cat(all.to_vec(), axis);
    let positions = all.dims()[axis];
    all.narrow(axis, positions - kept, kept)
}

/// Appends parts and compares the views with everything that was appended. A window of w leaves the w − 1 keys before
/// the new ones, because the first new query sees those.
#[test]
fn views_hold_what_a_query_may_see() {
    for (layout, axis) in [(HeadLayout::Bnsd, 2), (HeadLayout::Bsnd, 1)] {
        for window in [None, Some(1), Some(5), Some(300)] {
            let mut cache = KvCache::new(layout);
            if let Some(window) = window {
                cache = cache.with_window(window);
            }
            let (mut keys, mut values) = (Vec::new(), Vec::new());
            let mut positions = 0;
            // More than the first page, and more than its double.
            for part in [7, 1, 1, 240, 1, 30, 1, 1, 500, 1]
                .into_iter()
                .cycle()
                .take(33)
            {
                let of = |width| match layout {
                    HeadLayout::Bnsd => random([2, 3, part, width]),
                    HeadLayout::Bsnd => random([2, part, 3, width]),
                };
                keys.push(of(4));
                values.push(of(2));
                let (k, v) = (keys.last().unwrap(), values.last().unwrap());
                let (k, v) = cache.append(k.clone(), v.clone()).unwrap();
                let kept = match window {
                    Some(window) => part + positions.min(window - 1),
                    None => part + positions,
                };
                positions += part;
                assert_eq!((cache.positions(), cache.kept()), (positions, kept));
                k.into_data()
                    .assert_eq(&last(&keys, axis, kept).into_data(), true);
                v.into_data()
                    .assert_eq(&last(&values, axis, kept).into_data(), true);
            }
            cache.clear();
            assert_eq!((cache.positions(), cache.kept()), (0, 0));
        }
    }
}

/// After a cut, the views are those of a cache that took the first positions only, and other keys follow them. A cut that
/// needs keys which a window has dropped changes nothing.
#[test]
fn a_cache_is_cut_back_as_far_as_its_keys_reach() {
    for (window, cuts) in [
        (None, [(399, true), (240, true), (1, true)]),
        (Some(1), [(399, true), (260, true), (20, false)]),
        (Some(5), [(399, true), (260, true), (20, false)]),
        (Some(300), [(399, true), (240, true), (1, true)]),
    ] {
        for (positions, possible) in cuts {
            let all = [random([1, 2, 400, 4]), random([1, 2, 400, 3])];
            let part =
                |from: usize, count: usize| all.clone().map(|one| one.narrow(2, from, count));
            let mut cache = KvCache::new(HeadLayout::Bnsd);
            if let Some(window) = window {
                cache = cache.with_window(window);
            }
            for (from, count) in [(0, 250), (250, 7)]
                .into_iter()
                .chain((257..400).map(|at| (at, 1)))
            {
                let [k, v] = part(from, count);
                cache.append(k, v).unwrap();
            }
            assert_eq!(cache.cut(positions), possible, "{window:?} {positions}");
            let left = if possible { positions } else { 400 };
            assert_eq!(cache.positions(), left);
            let new = [random([1, 2, 3, 4]), random([1, 2, 3, 3])];
            let [k, v] = new.clone();
            let (k, v) = cache.append(k, v).unwrap();
            let seen = window.map_or(left, |window| left.min(window - 1));
            for (found, (old, new)) in [k, v].into_iter().zip(all.into_iter().zip(new)) {
                let expected = match seen {
                    0 => new,
                    _ => Tensor::cat(vec![old.narrow(2, left - seen, seen), new], 2),
                };
                found.into_data().assert_eq(&expected.into_data(), true);
            }
        }
    }
    let mut cache = KvCache::new(HeadLayout::Bnsd).with_window(2);
    cache
        .append(random([1, 1, 600, 4]), random([1, 1, 600, 4]))
        .unwrap();
    assert!(cache.cut(700) && cache.positions() == 600);
    assert!(cache.cut(0) && cache.positions() == 0 && cache.kept() == 0);
}

/// The tail of a cache is cut back by the positions that it was made for, and its memory is its own.
#[test]
fn the_tail_of_a_cache_is_small() {
    let mut cache = KvCache::new(HeadLayout::Bnsd).with_window(5);
    let [k, v] = [random([1, 2, 2000, 4]), random([1, 2, 2000, 4])];
    cache.append(k.clone(), v).unwrap();
    let mut tail = None;
    let made = bytes(|| tail = Some(cache.tail(10)));
    assert!(made < 8 << 10, "{made} bytes");
    let tail = tail.unwrap();
    cache
        .append(random([1, 2, 1, 4]), random([1, 2, 1, 4]))
        .unwrap();
    assert_eq!((tail.positions(), tail.kept()), (2000, 4));
    assert!(!tail.clone().cut(1989));
    let mut cut = tail.clone();
    assert!(cut.cut(1990));
    let (seen, _) = cut
        .append(random([1, 2, 1, 4]), random([1, 2, 1, 4]))
        .unwrap();
    let expected = k.narrow(2, 1986, 4);
    seen.narrow(2, 0, 4)
        .into_data()
        .assert_eq(&expected.into_data(), true);
    assert_eq!(KvCache::new(HeadLayout::Bnsd).tail(10).positions(), 0);
}

/// A step writes one position and copies nothing, in caches of any length.
#[test]
fn a_step_copies_no_earlier_position() {
    let step = || random([1, 4, 1, 64]);
    for cache in [
        KvCache::new(HeadLayout::Bnsd).with_limit(4096),
        KvCache::new(HeadLayout::Bnsd).with_window(2048),
    ] {
        let mut cache = cache;
        // 2 MiB of keys, and as many of values.
        let prompt = || random([1, 4, 2050, 64]);
        cache.append(prompt(), prompt()).unwrap();
        for _ in 0..20 {
            let (k, v) = (step(), step());
            let made = bytes(|| drop(cache.append(k, v).unwrap()));
            assert!(made < 8 << 10, "{made} bytes");
        }
    }
}

/// With a window, the memory does not grow with the number of positions, and it is made anew only now and then.
#[test]
fn a_window_has_a_bounded_memory() {
    for window in [256, 300, 512, 2048] {
        let cache = KvCache::new(HeadLayout::Bnsd).with_window(window);
        assert_eq!(after_many_steps(cache), (STEPS, window));
    }
}

/// Without a window, it doubles.
#[test]
fn memory_is_made_anew_only_now_and_then() {
    let cache = KvCache::new(HeadLayout::Bnsd);
    assert_eq!(after_many_steps(cache), (STEPS, STEPS));
}

const STEPS: usize = 5_000;

/// Appends one position at a time, and checks how much memory is made. Returns the numbers of positions and of those
/// that are kept.
fn after_many_steps(mut cache: KvCache) -> (usize, usize) {
    let step = || random([1, 1, 1, 64]);
    let mut all = 0;
    for _ in 0..STEPS {
        let (k, v) = (step(), step());
        all += bytes(|| drop(cache.append(k, v).unwrap()));
    }
    // Keys and values of a position are 512 bytes, and memory is for two windows or for twice the positions.
    let per_position = all / STEPS;
    assert!(per_position < 5 << 10, "{per_position} bytes a position");
    (cache.positions(), cache.kept())
}

#[test]
#[should_panic(expected = "a window is set before the first position")]
fn a_window_can_not_be_set_later() {
    let mut cache = KvCache::new(HeadLayout::Bnsd);
    let one = || random([1, 1, 1, 4]);
    cache.append(one(), one()).unwrap();
    cache.with_window(3);
}

/// Somebody who keeps the views keeps their values.
#[test]
fn kept_views_do_not_change() {
    let mut cache = KvCache::new(HeadLayout::Bnsd).with_window(2);
    let of = |value: f32| Tensor::<4>::full([1, 1, 1, 2], value, &Device::flex());
    let (k, _) = cache.append(of(1.0), of(1.0)).unwrap();
    for value in [2.0, 3.0, 4.0] {
        cache.append(of(value), of(value)).unwrap();
    }
    assert_eq!(k.into_data().try_to_vec::<f32>().unwrap(), [1.0; 2]);
}

#[test]
fn what_does_not_go_together_is_refused() {
    let mut cache = KvCache::new(HeadLayout::Bsnd).with_limit(6);
    let k = || random([2, 4, 3, 8]);
    cache.append(k(), k()).unwrap();
    let full = CacheError::Full {
        positions: 4,
        further: 4,
        limit: 6,
    };
    assert_eq!(cache.append(k(), k()).unwrap_err(), full);
    let said = full.to_string();
    assert!(
        said.contains("limit of 6") && said.contains("4 more don't fit"),
        "{said}"
    );
    for (k, v, expected) in [
        (random([2, 1, 3, 8]), random([2, 2, 3, 8]), "but values"),
        (
            random([2, 1, 3, 8]),
            random([2, 1, 3, 8]).cast(FloatDType::F64),
            "but values F64",
        ),
        (
            random([1, 1, 3, 8]),
            random([1, 1, 3, 8]),
            "another model or batch",
        ),
        (
            random([2, 1, 2, 8]),
            random([2, 1, 2, 8]),
            "another model or batch",
        ),
        (random([2, 1, 3, 7]), random([2, 1, 3, 8]), "keys are F32"),
        (random([2, 1, 3, 8]), random([2, 1, 3, 7]), "values are F32"),
    ] {
        let error = cache.append(k, v).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
    // The cache is as it was.
    let (k, _) = cache
        .append(random([2, 2, 3, 8]), random([2, 2, 3, 8]))
        .unwrap();
    assert_eq!((k.dims(), k.dtype()), ([2, 6, 3, 8], DType::F32));
}

/// Memory for a limit that no machine has memory for is made as positions come.
#[test]
fn a_limit_beyond_all_memory_takes_none() {
    for limit in [1 << 50, usize::MAX] {
        for cache in [
            KvCache::new(HeadLayout::Bnsd).with_limit(limit),
            KvCache::new(HeadLayout::Bnsd)
                .with_window(limit)
                .with_limit(limit),
            KvCache::new(HeadLayout::Bnsd).with_window(limit),
        ] {
            let mut cache = cache;
            let some = random([1, 1, 3, 2]);
            let made = bytes(|| drop(cache.append(some.clone(), some.clone()).unwrap()));
            assert!(made < 1 << 20, "{made} bytes");
            let many = random([1, 1, 20_000, 2]);
            let (k, _) = cache.append(many.clone(), many).unwrap();
            assert_eq!((k.dims(), cache.kept()), ([1, 1, 20_003, 2], 20_003));
        }
    }
}

/// So many positions, expanded, have no place in memory.
#[test]
fn an_append_that_panics_leaves_the_cache_as_it_was() {
    let mut cache = KvCache::new(HeadLayout::Bnsd);
    let some = random([1, 1, 3, 2]);
    cache.append(some.clone(), some.clone()).unwrap();
    let too_many = || {
        some.clone()
            .narrow(2, 0, 1)
            .expand([1, 1, 1_usize << 60, 2])
    };
    let (k, v) = (too_many(), too_many());
    let append = std::panic::AssertUnwindSafe(|| drop(cache.append(k, v)));
    std::panic::catch_unwind(append).expect_err("memory runs out");
    let (k, _) = cache.append(some.clone(), some.clone()).unwrap();
    k.into_data()
        .assert_eq(&Tensor::cat(vec![some.clone(), some], 2).into_data(), true);
}
