//! The library of `kernels-export`, as `kernels export` packs it, if it was built: `cargo build -p kernels-export`.

use crate::support::{fails, not_checked, open, package};
use kernels_packages::{Argument, Tensor, Trust};
use std::fs;

#[test]
fn our_own_kernels_run_as_a_package() {
    let program = std::env::current_exe().expect("this program");
    let built = program
        .parent()
        .and_then(|deps| deps.parent())
        .expect("a folder")
        .join("libkernels_export.so");
    let Ok(library) = fs::read(&built) else {
        let built = built.display();
        not_checked(&format!(
            "our own kernels as a package: {built} was not built"
        ));
        return;
    };
    let package = open(&package(&[("_kernels_x86_64.so", &library)])).expect("a package");
    // SAFETY: the library is that of this workspace.
    let loaded = unsafe { package.load(Trust::Folder) }.expect("a loaded package");
    let norm = loaded.function("layer_norm").expect("a function");
    let x: Vec<f32> = (0..8).map(|i| (i * i) as f32).collect();
    let (weight, mut y) = ([2.0_f32; 4], [0.0_f32; 8]);
    {
        let x = Tensor::new(&x, &[2, 4]).expect("a tensor");
        let weight = Tensor::new(&weight, &[4]).expect("a tensor");
        let y = Tensor::new_mut(&mut y, &[2, 4]).expect("a tensor");
        let [x, weight, y] = [&x, &weight, &y].map(Argument::Tensor);
        let all = [
            x,
            weight,
            Argument::Null,
            Argument::Float(1e-5),
            y,
            Argument::Null,
            Argument::Null,
        ];
        // SAFETY: the function checks its arguments.
        unsafe {
            norm.call(&all).expect("a result");
            // Without TVM-FFI's library, too, the message arrives.
            fails(
                norm.call(&all[1..]),
                "4 arguments and 3 tensors for results are expected",
            );
            fails(
                norm.call(&[
                    weight,
                    weight,
                    weight,
                    weight,
                    y,
                    Argument::Null,
                    Argument::Null,
                ]),
                "eps: a float is expected",
            );
        }
    }
    for (x, y) in x.chunks(4).zip(y.chunks(4)) {
        let x: Vec<f64> = x.iter().map(|x| f64::from(*x)).collect();
        let mean = x.iter().sum::<f64>() / 4.0;
        let variance = x.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / 4.0;
        for (x, y) in x.iter().zip(y) {
            let expected = 2.0 * (x - mean) / (variance + 1e-5).sqrt();
            // A few roundings of f32.
            assert!((f64::from(*y) - expected).abs() < 1e-5, "{y} {expected}");
        }
    }
}
