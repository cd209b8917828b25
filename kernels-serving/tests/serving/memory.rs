//! Tests sessions that ask for more memory than their limit: they end with an error, and the others go on.

use burn::backend::Flex;
use burn::tensor::{DType, Device, Int, Tensor, TensorData};
use kernels_runtime::ops::moe::{Stack, grouped_matmul};
use kernels_runtime::semantics::ExpertLayout;
use kernels_serving::remote::{self, ServeOptions, Server, connect};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

const MIB: usize = 1 << 20;

/// The limit of a session in these tests, in bytes.
const LIMIT: usize = 64 * MIB;

fn serve() -> Server {
    let options = ServeOptions::websocket(([127, 0, 0, 1], 0)).max_session_memory(LIMIT as u64);
    Server::start::<Flex>([Default::default()], options).unwrap()
}

fn client(server: &Server) -> Device {
    connect(server.address(), server.token()).unwrap().remove(0)
}

fn ones<const D: usize>(shape: [usize; D], device: &Device) -> Tensor<D> {
    Tensor::ones(shape, (device, DType::F32))
}

/// Returns an element of a tensor, or the error of reading it.
fn first<const D: usize>(tensor: Tensor<D>) -> Result<f32, String> {
    let one = tensor.slice(std::array::from_fn::<_, D, _>(|_| 0..1));
    let data = one.try_into_data().map_err(|error| error.to_string())?;
    Ok(data.iter::<f32>().next().unwrap())
}

/// Checks the results of a client that needs little memory.
fn work(device: &Device) {
    let a = Tensor::<1>::from_data([1.0, 2.0, 3.0, 4.0], (device, DType::F32)).reshape([2, 2]);
    let product = a.clone().matmul(a).into_data();
    assert_eq!(product, TensorData::from([[7.0f32, 10.0], [15.0, 22.0]]));
}

/// The operation that the error must name, and the work of a hostile client on its device. The work returns the number
/// that it read, or the error.
type Attack = (&'static str, fn(&Device) -> Result<f32, String>);

/// The attacks of the test.
const ATTACKS: [Attack; 13] = [
    ("float_zeros", |device| {
        first(Tensor::<1>::zeros([1usize << 42], (device, DType::F32)))
    }),
    // 2⁶⁴ elements wrap around to none.
    ("float_zeros", |device| {
        first(Tensor::<2>::zeros(
            [1usize << 32, 1usize << 32],
            (device, DType::F32),
        ))
    }),
    ("int_full", |device| {
        let full = Tensor::<1, Int>::full([1usize << 42], 7, device);
        first(full.slice(0..1).float())
    }),
    ("float_random", |device| {
        let of = burn::tensor::Distribution::Default;
        first(Tensor::<1>::random(
            [1usize << 42],
            of,
            (device, DType::F32),
        ))
    }),
    ("float_zeros", |device| {
        let mut kept = Vec::new();
        for _ in 0..40 {
            kept.push(Tensor::<1>::zeros([MIB / 2], (device, DType::F32)));
        }
        first(kept.remove(0))
    }),
    ("float_expand", |device| {
        first(ones([1, 1], device).expand([1 << 20, 1 << 20]))
    }),
    ("float_repeat_dim", |device| {
        let shown = ones([1, 1], device).expand([1024, 1024]);
        first(shown.repeat_dim(0, 1 << 30))
    }),
    ("float_cat", |device| {
        let part = ones([MIB / 2], device);
        first(Tensor::cat(vec![part; 40], 0))
    }),
    ("float_matmul", |device| {
        let (column, row) = (ones([1 << 16, 1], device), ones([1, 1 << 16], device));
        first(column.matmul(row))
    }),
    ("float_add", |device| {
        let (column, row) = (ones([1 << 16, 1], device), ones([1, 1 << 16], device));
        first(column + row)
    }),
    ("float_select", |device| {
        let wide = ones([1, MIB], device);
        let again = Tensor::<1, Int>::zeros([1 << 10], device);
        first(wide.select(0, again))
    }),
    ("burn-kernels/grouped_matmul", |device| {
        let x = ones([1 << 16, 1], device);
        let weights = Stack::from(ones([1, 1, 1 << 16], device));
        let counts = Tensor::<1, Int>::from_data([1 << 16], device);
        let y = grouped_matmul::fused(x, counts, weights, ExpertLayout::Matmul);
        first(y.map_err(|reason| reason.to_string())?)
    }),
    ("interpolate", |device| {
        use burn::tensor::ops::{InterpolateMode, InterpolateOptions};
        let options = InterpolateOptions::new(InterpolateMode::Nearest);
        let options = options.with_output_size([1 << 16, 1 << 16]);
        first(burn::tensor::module::interpolate(
            ones([1, 1, 2, 2], device),
            options,
        ))
    }),
];

#[test]
fn who_asks_for_too_much_gets_an_error_and_the_others_go_on() {
    let server = serve();
    let good = client(&server);
    work(&good);
    let (done, rounds) = (AtomicBool::new(false), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        let beside = scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                work(&good);
                rounds.fetch_add(1, Ordering::Relaxed);
            }
        });
        for (operation, attack) in ATTACKS {
            let hostile = client(&server);
            let begun = Instant::now();
            let before = rounds.load(Ordering::Relaxed);
            attack(&hostile).expect_err(operation);
            let why = remote::failure(&hostile).expect("the server says why");
            assert!(
                why.contains(&format!("`{operation}`")),
                "{operation}: {why}"
            );
            let told = why.contains("64.0 MiB") || why.contains("can address");
            assert!(told, "{operation}: {why}");
            assert!(begun.elapsed() < Duration::from_secs(30), "{operation}");
            // A client that connects afterwards has the whole limit, and the good client goes on.
            let next = client(&server);
            assert_eq!(
                first(ones([LIMIT / 4 - 1024], &next)).unwrap(),
                1.0,
                "{operation}"
            );
            while rounds.load(Ordering::Relaxed) == before {
                assert!(!beside.is_finished(), "the good client failed: {operation}");
                std::thread::sleep(Duration::from_millis(5));
            }
        }
        done.store(true, Ordering::Relaxed);
        beside.join().unwrap();
    });
    work(&good);
}

/// Freed memory can be used again: a session is limited by what it holds at a time.
#[test]
fn a_session_may_use_its_limit_again_and_again() {
    let server = serve();
    let device = client(&server);
    for round in 0..40 {
        let x = ones([8 * MIB], &device);
        // A view needs no further buffer, and consumed tensors are released.
        let views: Vec<_> = (0..20).map(|at| x.clone().slice(at..at + 1)).collect();
        let sum = views
            .into_iter()
            .map(|view| first(view).unwrap())
            .sum::<f32>();
        assert_eq!(sum, 20.0, "{round}");
    }
    assert!(remote::failure(&device).is_none());
}

/// A read of an expanded view counts with the view's size.
#[test]
fn a_read_of_more_than_the_limit_is_an_error() {
    let server = serve();
    let device = client(&server);
    let shown = ones([1], &device).expand([12 * MIB]);
    let said = shown.try_into_data().unwrap_err().to_string();
    assert!(
        said.contains("float_into_data") && said.contains("64.0 MiB"),
        "{said}"
    );
    // Only the read failed, and the session goes on.
    work(&device);
}

/// Tensors that a client sends count like those that it computes.
#[test]
fn data_that_is_sent_counts() {
    let server = serve();
    let device = client(&server);
    let data = TensorData::new(vec![1f32; 5 * MIB], [5 * MIB]);
    let kept: Vec<_> = (0..4)
        .map(|_| Tensor::<1>::from_data(data.clone(), (&device, DType::F32)))
        .collect();
    assert!(device.sync().is_err());
    let why = remote::failure(&device).unwrap();
    assert!(why.contains("float_from_data"), "{why}");
    drop(kept);
    work(&client(&server));
}

/// Empty tensors of one client don't contain memory that another one freed.
#[test]
fn empty_tensors_hold_nothing_of_other_clients() {
    const PATTERN: f32 = -6.25e-17;
    let server = serve();
    let sizes: Vec<usize> = (0..22).map(|power| (1 << power) + power).collect();
    let first = client(&server);
    for _ in 0..3 {
        for &size in &sizes {
            let full = Tensor::<1>::full([size], PATTERN, (&first, DType::F32));
            drop(full);
        }
    }
    first.sync().unwrap();
    let second = client(&server);
    for &size in &sizes {
        let empty = Tensor::<1>::empty([size], (&second, DType::F32)).into_data();
        assert!(empty.iter::<f32>().all(|value| value == 0.0), "{size}");
        let ints = Tensor::<1, Int>::empty([size], &second).into_data();
        assert!(ints.iter::<i64>().all(|value| value == 0), "{size}");
    }
}
