//! Divergences from a teacher by tiles, with their gradients: against f64, and against whole logits.

use crate::common::{File, fixtures, l2, model_dir, read, to_f64};
use crate::comparison::{difference, relative_to};
use burn::module::Module;
use burn::optim::GradientsAccumulator;
use burn::tensor::{DType, Device, FloatDType, Int, Tensor, TensorData};
use burn_kernels::policy::{Policy, scope};
use kernels_models::preference::Divergence;
use kernels_models::{Distilled, Projection, Sequences, divergence_loss, load};

fn device() -> Device {
    Device::flex().autodiff()
}

fn matrix(file: &File, name: &str, dtype: DType) -> Tensor<2> {
    let stored = &file[name];
    let data = TensorData::new(stored.values(), [stored.shape[0], stored.shape[1]]);
    Tensor::from_data(data, (&device(), dtype))
}

fn values<const D: usize>(tensor: Tensor<D>) -> Vec<f64> {
    to_f64(&tensor.without_autodiff().into_data())
}

/// The norm of a gradient, and `Σ g_i·cos(0.7·i + 0.3)`.
fn probe(values: &[f64]) -> Vec<f64> {
    let each = values.iter().enumerate();
    let sum = each.map(|(i, g)| g * (0.7 * i as f64 + 0.3).cos()).sum();
    vec![l2(values.iter().copied()), sum]
}

#[test]
fn divergences_and_their_gradients_are_those_of_f64() {
    let file = read(&fixtures().join("preference/divergences.safetensors"));
    let names = file
        .keys()
        .filter_map(|name| name.split_once(".divergence."));
    let names: Vec<(&str, &str)> = names.collect();
    assert_eq!(names.len(), 5 + 3 + 3);
    // By the kernel, and by tiles of plain operations.
    for (policy, (dtype, tolerance)) in [Policy::auto(), Policy::reference()]
        .into_iter()
        .flat_map(|policy| [(DType::F64, 1e-7), (DType::F32, 1e-5)].map(|of| (policy.clone(), of)))
    {
        let _here = scope(policy.clone());
        for (case, mixture) in &names {
            let what = format!("{case}, {mixture}, {dtype:?}, {policy:?}");
            let is_capped = *case == "softcap";
            let of = |name: &str| matrix(&file, &format!("{case}.{name}"), dtype);
            // A scale of logits is one of hidden states.
            let scale = if is_capped { 0.5 } else { 1.0 };
            let hidden = of("student_hidden").require_grad();
            let weight = of("student_weight").require_grad();
            let student = Projection {
                hidden: hidden.clone(),
                weight: weight.clone().transpose().into(),
                softcap: is_capped.then_some(5.0),
            };
            let teacher = Projection {
                hidden: of("teacher_hidden") * scale,
                weight: of("teacher_weight").transpose().into(),
                softcap: is_capped.then_some(30.0),
            };
            let divergence = Divergence {
                mixture: mixture.parse().unwrap(),
                temperature: 1.0,
            };
            let expected = file[&format!("{case}.divergence.{mixture}")].values();
            let each = |at: usize| {
                let mut factors = vec![0.0; expected.len()];
                factors[at] = 1.0;
                values(divergence_loss(&student, &teacher, &factors, divergence).unwrap())[0]
            };
            let found: Vec<f64> = (0..expected.len()).map(each).collect();
            let error = relative_to(1.0, &found, &expected);
            assert!(error < tolerance, "{what}: {error}");
            let factors = file[&format!("{case}.g")].values();
            let loss = divergence_loss(&student, &teacher, &factors, divergence).unwrap();
            let products = factors.iter().zip(&expected).map(|(g, d)| g * d);
            let sum: f64 = products.sum();
            let error = difference(&values(loss.clone()), &[sum]);
            assert!(error < 10.0 * tolerance, "{what}, sum: {error}");
            let gradients = loss.backward();
            let found = values(hidden.grad(&gradients).unwrap());
            let expected = file[&format!("{case}.d_hidden.{mixture}")].values();
            let error = relative_to(1e-3, &found, &expected);
            assert!(error < 10.0 * tolerance, "{what}, hidden: {error}");
            let found = values(weight.grad(&gradients).unwrap());
            let expected = file[&format!("{case}.d_weight.{mixture}")].values();
            let error = relative_to(1e-2, &probe(&found), &expected);
            assert!(error < 10.0 * tolerance, "{what}, weight: {error}");
        }
    }
}

/// Vocabularies that differ by padding, and half types by the kernel and by tiles, against f64.
#[test]
fn half_types_and_padding_are_those_of_f64() {
    let numbers = |count: usize, seed: usize| -> Vec<f64> {
        let each = (0..count).map(|at| ((at * 7919 + seed * 104_729) % 2003) as f64 / 1001.5 - 1.0);
        each.collect()
    };
    let divergence = Divergence {
        mixture: 0.3,
        temperature: 1.5,
    };
    let run = |dtype: DType, classes: [usize; 2]| {
        let tensor = |shape: [usize; 2], seed| {
            let data = TensorData::new(numbers(shape[0] * shape[1], seed), shape);
            // Rounded to bf16 in any case.
            let rounded = Tensor::<2>::from_data(data, (&device(), DType::BF16));
            rounded.cast(FloatDType::from(dtype))
        };
        let part = |width: usize, at: usize| Projection {
            hidden: tensor([9, width], at).detach().require_grad(),
            weight: tensor([width, classes[at]], 2 + at)
                .detach()
                .require_grad()
                .into(),
            softcap: Some(4.0),
        };
        let (student, teacher) = (part(6, 0), part(10, 1));
        let factors = numbers(9, 7);
        let loss = divergence_loss(&student, &teacher, &factors, divergence).unwrap();
        let gradients = loss.backward();
        assert!(teacher.hidden.grad(&gradients).is_none());
        assert!(teacher.weight.floats().unwrap().grad(&gradients).is_none());
        [
            values(loss),
            values(student.hidden.grad(&gradients).unwrap()),
            values(student.weight.floats().unwrap().grad(&gradients).unwrap()),
        ]
    };
    for classes in [[40, 40], [40, 47], [47, 40]] {
        let exact = {
            let _tiles = scope(Policy::reference());
            run(DType::F64, classes)
        };
        for policy in [Policy::auto(), Policy::reference()] {
            let _here = scope(policy.clone());
            for (dtype, rounding) in [
                (DType::F64, 1e-12),
                (DType::F32, 1e-5),
                (DType::BF16, 1.0 / 128.0),
                (DType::F16, 1.0 / 1024.0),
            ] {
                let found = run(dtype, classes);
                for (at, (found, exact)) in found.iter().zip(&exact).enumerate() {
                    let error = relative_to(1e-6, found, exact);
                    // The loss is not rounded.
                    let most = if at == 0 {
                        f64::min(rounding, 1e-5)
                    } else {
                        rounding
                    };
                    assert!(
                        error < most,
                        "{classes:?}, {policy:?}, {dtype:?}, {at}: {error:e}"
                    );
                }
            }
        }
    }
}

#[test]
fn what_does_not_go_together_is_refused() {
    let part = |tokens: usize, vocabulary: usize| Projection {
        hidden: Tensor::zeros([tokens, 2], &device()),
        weight: Tensor::zeros([2, vocabulary], &device()).into(),
        softcap: None,
    };
    let divergence = |mixture| Divergence {
        mixture,
        temperature: 1.0,
    };
    for (student, teacher, factors, mixture, expected) in [
        (part(3, 5), part(2, 5), 3, 0.5, "`teacher`"),
        (part(3, 5), part(3, 0), 3, 0.5, "vocabularies"),
        (part(3, 5), part(3, 5), 2, 0.5, "`factors`"),
        (part(0, 5), part(0, 5), 0, 0.5, "`teacher`"),
        (part(3, 5), part(3, 5), 3, 1.5, "mixture"),
    ] {
        let factors = vec![1.0; factors];
        let said = divergence_loss(&student, &teacher, &factors, divergence(mixture)).unwrap_err();
        let said = said.to_string();
        assert!(said.contains(expected.trim_matches('`')), "{said}");
    }
}

/// Losses of whole models, with layers kept or computed twice, are those of the formula on all logits.
#[test]
fn a_student_learns_from_whole_logits() {
    let ids = [3_i64, 9, 27, 17, 5, 4, 8, 11];
    let tensor = |values: &[i64]| Tensor::<1, Int>::from_data(values, &device()).reshape([2, 4]);
    let sequences = || Sequences {
        input_ids: tensor(&ids),
        targets: tensor(&[9, 27, 17, -100, 4, 8, 11, -100]),
        position_ids: tensor(&[0, 1, 2, 3, 0, 1, 2, 3]),
        documents: None,
        attention_mask: None,
        pictures: None,
    };
    let places = [0, 2, 4, 5];
    let divergence = Divergence {
        mixture: 0.3,
        temperature: 1.7,
    };
    let load = |name: &str, device: &Device| load(&model_dir(name), device, FloatDType::F64);
    for name in ["llama", "llama_rope3_tied"] {
        let (config, student) = load(name, &device()).unwrap();
        let (other, teacher) = load("qwen3", &device().inner()).unwrap();
        if config.vocab_size != other.vocab_size {
            panic!(
                "the fixtures have vocabularies of {} and {}",
                config.vocab_size, other.vocab_size
            );
        }
        let distilled = Distilled {
            teacher: &teacher,
            places: &places,
            divergence,
        };
        let loss = student.losses_of_divergence(sequences(), distilled).total;
        let selected = |logits: Tensor<3>| {
            let at = Tensor::<1, Int>::from_data([0_i64, 2, 4, 5], &logits.device());
            logits.reshape([8, config.vocab_size]).select(0, at)
        };
        let here = tensor(&ids);
        let there = Tensor::<1, Int>::from_data(&ids[..], &device().inner()).reshape([2, 4]);
        let (own, taught) = (student.forward(here, None), teacher.forward(there, None));
        let whole = divergence
            .per_token(selected(own), selected(taught))
            .unwrap()
            .mean();
        let error = difference(&values(loss.clone()), &values(whole.clone()));
        assert!(error < 1e-10, "{name}: {error}");
        let expected = student.gradients(&whole.backward());
        let found = student.gradients(&loss.backward());
        assert_eq!(found.len(), expected.len());
        for (parameter, expected) in &expected {
            let error = relative_to(1e-6, &to_f64(&found[parameter]), &to_f64(expected));
            assert!(error < 1e-7, "{name}, {parameter}: {error}");
        }
        let mut sum = GradientsAccumulator::new();
        let recomputed = student.recomputed_losses_of_divergence(
            sequences(),
            distilled,
            (1.0, 3),
            |gradients| {
                let own = burn::optim::GradientsParams::from_grads(gradients, &student);
                sum.accumulate(&student, own);
            },
        );
        let error = difference(&values(recomputed.total), &values(loss));
        assert!(error < 1e-10, "{name}: {error}");
        struct Norm<'a>(&'a mut burn::optim::GradientsParams, f64);
        impl burn::module::ModuleVisitor for Norm<'_> {
            fn visit_float<const D: usize>(&mut self, param: &burn::module::Param<Tensor<D>>) {
                let gradient = self
                    .0
                    .remove::<D>(param.id)
                    .expect("each parameter has one");
                self.1 += values(gradient).iter().map(|g| g * g).sum::<f64>();
            }
        }
        let mut gradients = sum.grads();
        let mut norm = Norm(&mut gradients, 0.0);
        student.visit(&mut norm);
        let all = expected.values().flat_map(to_f64);
        let error = (norm.1.sqrt() - l2(all.collect::<Vec<_>>())).abs();
        assert!(error < 1e-7, "{name}, recomputed: {error}");
    }
}
