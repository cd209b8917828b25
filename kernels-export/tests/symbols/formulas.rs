//! The functions as formulas in f64, element by element.

use crate::functions::{Array, Results, Values};

fn array(shape: &[usize], data: Vec<f64>) -> Array {
    assert_eq!(data.len(), shape.iter().product::<usize>());
    Array {
        shape: shape.to_vec(),
        data,
    }
}

fn results<const N: usize>(named: [(&'static str, Array); N]) -> Results {
    named.into_iter().collect()
}

fn mean(numbers: impl ExactSizeIterator<Item = f64>) -> f64 {
    let count = numbers.len() as f64;
    numbers.sum::<f64>() / count
}

fn sigmoid(x: f64) -> f64 {
    1.0 / (1.0 + (-x).exp())
}

fn silu(x: f64) -> f64 {
    x * sigmoid(x)
}

fn dot(a: impl Iterator<Item = f64>, b: impl Iterator<Item = f64>) -> f64 {
    a.zip(b).map(|(a, b)| a * b).sum()
}

fn last(of: &Array) -> usize {
    *of.shape.last().expect("an axis")
}

pub fn rms_norm(v: &Values) -> Results {
    let (x, weight) = (v.array("x"), v.array("weight"));
    let mut sum = x.data.clone();
    if let Some(residual) = v.array_or_none("residual") {
        sum.iter_mut()
            .zip(&residual.data)
            .for_each(|(x, r)| *x += r);
    }
    let gate = v.array_or_none("gate");
    let gated = |i: usize, x: f64, place: &str| match gate {
        Some(gate) if v.name("gating") == place => x * silu(gate.data[i]),
        _ => x,
    };
    let given: Vec<f64> = (sum.iter().enumerate())
        .map(|(i, x)| gated(i, *x, "before_norm"))
        .collect();
    let width = match v.number("group_size") as usize {
        0 => last(x),
        size => size,
    };
    let rstd: Vec<f64> = given
        .chunks(width)
        .map(|row| 1.0 / (mean(row.iter().map(|x| x * x)) + v.number("eps")).sqrt())
        .collect();
    let y = given.iter().enumerate().map(|(i, x)| {
        let gain = v.number("offset") + weight.data[i % weight.data.len()];
        gated(i, x * rstd[i / width] * gain, "after_norm")
    });
    let mut found = results([
        ("y", array(&x.shape, y.collect())),
        ("rstd", array(&[rstd.len()], rstd)),
    ]);
    if v.array_or_none("residual").is_some() {
        found.insert("sum", array(&x.shape, sum));
    }
    found
}

pub fn layer_norm(v: &Values) -> Results {
    let x = v.array("x");
    let width = last(x);
    let means: Vec<f64> = (x.data.chunks(width))
        .map(|row| mean(row.iter().copied()))
        .collect();
    let rstd: Vec<f64> = (x.data.chunks(width).zip(&means))
        .map(|(row, m)| mean(row.iter().map(|x| (x - m).powi(2))))
        .map(|variance| 1.0 / (variance + v.number("eps")).sqrt())
        .collect();
    let (weight, bias) = (&v.array("weight").data, &v.array("bias").data);
    let y = x.data.iter().enumerate().map(|(i, x)| {
        let (row, column) = (i / width, i % width);
        (x - means[row]) * rstd[row] * weight[column] + bias[column]
    });
    results([
        ("y", array(&x.shape, y.collect())),
        ("mean", array(&[means.len()], means)),
        ("rstd", array(&[rstd.len()], rstd)),
    ])
}

/// Returns gate and up of each row.
fn halves(both: &[f64], up: Option<&[f64]>, projections: &str) -> [Vec<f64>; 2] {
    let width = both.len() / 2;
    match projections {
        "separate" => [both.to_vec(), up.expect("up").to_vec()],
        "chunked" => [both[..width].to_vec(), both[width..].to_vec()],
        _ => [0, 1].map(|part| both.iter().skip(part).step_by(2).copied().collect()),
    }
}

pub fn glu(v: &Values) -> Results {
    let (gate, up) = (v.array("gate"), v.array_or_none("up"));
    let (width, limit) = (last(gate), v.number_or_none("limit"));
    let mut y = Vec::new();
    for (row, both) in gate.data.chunks(width).enumerate() {
        let up = up.map(|up| &up.data[row * width..][..width]);
        let [mut gates, mut ups] = halves(both, up, v.name("projections"));
        if let Some(limit) = limit {
            gates.iter_mut().for_each(|x| *x = x.min(limit));
            ups.iter_mut().for_each(|x| *x = x.clamp(-limit, limit));
        }
        if let Some(threshold) = v.number_or_none("threshold") {
            let m = mean(gates.iter().copied());
            let deviation = mean(gates.iter().map(|x| (x - m).powi(2))).sqrt();
            let cut = |x: &mut f64| *x = (*x - m - threshold * deviation).max(0.0);
            gates.iter_mut().for_each(cut);
        }
        let units = gates.iter().zip(&ups);
        y.extend(units.map(|(gate, up)| silu(*gate) * (v.number("up_offset") + up)));
    }
    let mut shape = gate.shape.clone();
    *shape.last_mut().expect("an axis") = y.len() / shape[0];
    results([("y", array(&shape, y))])
}

/// Rotates a head. `at` is the row of the tables.
fn rotate(v: &Values, head: &[f64], at: usize) -> Vec<f64> {
    let width = last(v.array("cos"));
    let [cos, sin] = ["cos", "sin"].map(|name| &v.array(name).data[at * width..][..width]);
    let pairs = match v.name("table") {
        "pairs" => width,
        _ => width / 2,
    };
    let of_table = |pair: usize| match v.name("table") {
        "pairs" => [pair; 2],
        "neighbours" => [2 * pair, 2 * pair + 1],
        _ => [pair, pair + pairs],
    };
    let (halves, neighbours) = (
        |pair: usize| [pair, pair + pairs],
        |pair: usize| [2 * pair, 2 * pair + 1],
    );
    let mut y = head.to_vec();
    for pair in 0..pairs {
        let ([a, b], [c, d]) = match v.name("style") {
            "half" => (halves(pair), halves(pair)),
            "interleaved" => (neighbours(pair), neighbours(pair)),
            _ => (neighbours(pair), halves(pair)),
        };
        let [first, second] = of_table(pair);
        y[c] = head[a] * cos[first] - head[b] * sin[first];
        y[d] = head[b] * cos[second] + head[a] * sin[second];
    }
    y
}

pub fn rope(v: &Values) -> Results {
    let rotated = |name: &str| {
        let x = v.array(name);
        let &[_, second, third, width] = &x.shape[..] else {
            panic!("heads")
        };
        let heads = x.data.chunks(width).enumerate().flat_map(|(row, head)| {
            let at = match v.name("layout") {
                "bnsd" => row % third,
                _ => row / third % second,
            };
            rotate(v, head, at)
        });
        array(&x.shape, heads.collect())
    };
    results([("rotated_q", rotated("q")), ("rotated_k", rotated("k"))])
}

pub fn qk_norm_rope(v: &Values) -> Results {
    let (x, weight) = (v.array("x"), &v.array("weight").data);
    let &[batch, seq, heads, width] = &x.shape[..] else {
        panic!("heads")
    };
    let of_row = weight.len();
    let normed: Vec<f64> = (x.data.chunks(of_row))
        .flat_map(|row| {
            let rstd = 1.0 / (mean(row.iter().map(|x| x * x)) + v.number("eps")).sqrt();
            let scaled = row.iter().zip(weight);
            scaled.map(move |(x, w)| x * rstd * (v.number("offset") + w))
        })
        .collect();
    let rows: Vec<Vec<f64>> = (normed.chunks(width).enumerate())
        .map(|(row, head)| rotate(v, head, row / heads))
        .collect();
    if v.name("layout") == "bsnd" {
        return results([("y", array(&x.shape, rows.concat()))]);
    }
    let mut y = Vec::new();
    for b in 0..batch {
        for head in 0..heads {
            for s in 0..seq {
                y.extend(&rows[(b * seq + s) * heads + head]);
            }
        }
    }
    results([("y", array(&[batch, heads, seq, width], y))])
}

pub fn attention(v: &Values) -> Results {
    let [q, k, values] = ["q", "k", "v"].map(|name| v.array(name));
    let &[batch, heads, queries, width] = &q.shape[..] else {
        panic!("heads")
    };
    let (kv_heads, keys, value_width) = (k.shape[1], k.shape[2], last(values));
    let window = v.number("window") as usize;
    let mask = match &v.0["mask"] {
        crate::functions::Given::Bools(_, mask) => Some(mask),
        _ => None,
    };
    let (mut y, mut lse) = (Vec::new(), Vec::new());
    for row in 0..batch * heads * queries {
        let (b, head, query) = (row / queries / heads, row / queries % heads, row % queries);
        let of_keys = b * kv_heads + head / (heads / kv_heads);
        let own = query + keys - queries;
        let sees = |key: usize| {
            (!v.flag("causal") || key <= own)
                && (window == 0 || key + window > own)
                && mask.is_none_or(|mask| mask[query * keys + key] != 0)
        };
        let score = |key: usize| {
            let k = &k.data[(of_keys * keys + key) * width..][..width];
            let q = &q.data[row * width..][..width];
            let mut score = v.number("scale") * dot(q.iter().copied(), k.iter().copied());
            if let Some(cap) = v.number_or_none("cap") {
                score = cap * (score / cap).tanh();
            }
            let bias = v.array_or_none("bias");
            score + bias.map_or(0.0, |bias| bias.data[(head * queries + query) * keys + key])
        };
        let seen: Vec<(usize, f64)> = (0..keys)
            .filter(|key| sees(*key))
            .map(|key| (key, score(key).exp()))
            .collect();
        let sink = v
            .array_or_none("sinks")
            .map_or(0.0, |sinks| sinks.data[head].exp());
        let sum = sink + seen.iter().map(|(_, e)| e).sum::<f64>();
        lse.push(sum.ln());
        for element in 0..value_width {
            let value = |key: usize| values.data[(of_keys * keys + key) * value_width + element];
            y.push(seen.iter().map(|(key, e)| e * value(*key)).sum::<f64>() / sum);
        }
    }
    results([
        ("y", array(&[batch, heads, queries, value_width], y)),
        ("lse", array(&[batch, heads, queries], lse)),
    ])
}

/// Returns `row · weight + bias`.
fn product(v: &Values, row: &[f64]) -> Vec<f64> {
    let (weight, bias) = (&v.array("weight").data, &v.array("bias").data);
    let (inputs, outputs) = (row.len(), bias.len());
    let output = |output: usize| {
        let weights = (0..inputs).map(|input| match v.name("layout") {
            "output_major" => weight[output * inputs + input],
            _ => weight[input * outputs + output],
        });
        dot(row.iter().copied(), weights) + bias[output]
    };
    (0..outputs).map(output).collect()
}

pub fn linear(v: &Values) -> Results {
    let x = v.array("x");
    let y: Vec<f64> = (x.data.chunks(last(x)))
        .flat_map(|row| product(v, row))
        .collect();
    let mut shape = x.shape.clone();
    *shape.last_mut().expect("an axis") = last(v.array("bias"));
    results([("y", array(&shape, y))])
}

/// Returns the loss of logits and the `lse` of each token.
fn loss(v: &Values, rows: &[Vec<f64>]) -> [Array; 2] {
    let targets = v.integers("targets");
    let (smoothing, cap) = (v.number("label_smoothing"), v.number("cap"));
    let (losses, lse): (Vec<f64>, Vec<f64>) = (rows.iter().zip(targets))
        .map(|(row, target)| {
            let Ok(target) = usize::try_from(*target) else {
                return (0.0, 0.0);
            };
            let logits: Vec<f64> = row.iter().map(|x| cap * (x / cap).tanh()).collect();
            let lse = logits.iter().map(|x| x.exp()).sum::<f64>().ln();
            let even = lse - mean(logits.iter().copied());
            let of_target = (1.0 - smoothing) * (lse - logits[target]);
            let loss = of_target + smoothing * even + v.number("z_loss") * lse * lse;
            (loss, lse)
        })
        .unzip();
    let sum = losses.iter().sum::<f64>();
    let counted = targets.iter().filter(|target| **target >= 0).count() as f64;
    let loss = match v.name("reduction") {
        "mean" => array(&[], vec![sum / counted]),
        "sum" => array(&[], vec![sum]),
        _ => array(&[losses.len()], losses),
    };
    [loss, array(&[lse.len()], lse)]
}

pub fn cross_entropy(v: &Values) -> Results {
    let logits = v.array("logits");
    let rows: Vec<Vec<f64>> = logits
        .data
        .chunks(last(logits))
        .map(<[f64]>::to_vec)
        .collect();
    let [loss, lse] = loss(v, &rows);
    results([("loss", loss), ("lse", lse)])
}

pub fn linear_cross_entropy(v: &Values) -> Results {
    let hidden = v.array("hidden");
    let rows = hidden.data.chunks(last(hidden)).map(|row| product(v, row));
    let [loss, _] = loss(v, &rows.collect::<Vec<_>>());
    results([("loss", loss)])
}

pub fn scaled(v: &Values) -> Results {
    let (kept, factor) = (v.array("kept"), v.array("dloss").data[0]);
    let products = kept.data.iter().map(|x| x * factor);
    results([("gradient", array(&kept.shape, products.collect()))])
}

pub fn adam_w(v: &Values) -> Results {
    let [parameter, first, second, gradient] =
        ["parameter", "moment_1", "moment_2", "gradient"].map(|name| v.array(name));
    let [rate, beta_1, beta_2, epsilon, decay, step] = [
        "learning_rate",
        "beta_1",
        "beta_2",
        "epsilon",
        "weight_decay",
        "step",
    ]
    .map(|name| v.number(name));
    let mut changed = [Vec::new(), Vec::new(), Vec::new()];
    for (i, g) in gradient.data.iter().enumerate() {
        let m = beta_1 * first.data[i] + (1.0 - beta_1) * g;
        let s = beta_2 * second.data[i] + (1.0 - beta_2) * g * g;
        let [m_hat, s_hat] = [m / (1.0 - beta_1.powf(step)), s / (1.0 - beta_2.powf(step))];
        let p = parameter.data[i] * (1.0 - rate * decay) - rate * m_hat / (s_hat.sqrt() + epsilon);
        changed
            .iter_mut()
            .zip([p, m, s])
            .for_each(|(to, x)| to.push(x));
    }
    let [p, m, s] = changed.map(|data| array(&parameter.shape, data));
    results([("parameter", p), ("moment_1", m), ("moment_2", s)])
}

/// Returns the product of a row with the stacked weights of an expert, and its bias.
fn of_expert(v: &Values, [weight, bias]: [&str; 2], expert: usize, row: &[f64]) -> Vec<f64> {
    let weights = v.array(weight);
    let (inputs, is_linear) = (row.len(), v.name("layout") == "linear");
    let outputs = weights.shape[if is_linear { 1 } else { 2 }];
    let own = &weights.data[expert * inputs * outputs..];
    let bias = v.array_or_none(bias);
    let output = |output: usize| {
        let column = (0..inputs).map(|input| match is_linear {
            true => own[output * inputs + input],
            false => own[input * outputs + output],
        });
        let bias = bias.map_or(0.0, |bias| bias.data[expert * outputs + output]);
        dot(row.iter().copied(), column) + bias
    };
    (0..outputs).map(output).collect()
}

pub fn experts(v: &Values) -> Results {
    let (x, routing, numbers) = (v.array("x"), v.array("routing"), v.integers("experts"));
    let (hidden, choices) = (last(x), last(routing));
    let (count, limit) = (v.array("down").shape[0], v.number("limit"));
    let (mut y, mut kept) = (vec![0.0; x.data.len()], Vec::new());
    for expert in 0..count {
        let chosen = numbers.iter().enumerate();
        for (slot, _) in chosen.filter(|(_, number)| **number == expert as i64) {
            let token = slot / choices;
            let row = &x.data[token * hidden..][..hidden];
            let both = of_expert(v, ["gate", "gate_bias"], expert, row);
            let up = v.array_or_none("up");
            let up = up.map(|_| of_expert(v, ["up", "up_bias"], expert, row));
            let [gate, up] = halves(&both, up.as_deref(), v.name("projections"));
            kept.extend(gate.iter().chain(&up));
            let unit: Vec<f64> = (gate.iter().zip(&up))
                .map(|(gate, up)| {
                    let gate = gate.min(limit);
                    gate * sigmoid(1.702 * gate) * (v.number("up_offset") + up.clamp(-limit, limit))
                })
                .collect();
            let result = of_expert(v, ["down", "down_bias"], expert, &unit);
            for (y, result) in y[token * hidden..].iter_mut().zip(result) {
                *y += routing.data[slot] * result;
            }
        }
    }
    let rows = numbers
        .iter()
        .filter(|number| **number < count as i64)
        .count();
    let width = kept.len() / rows;
    results([
        ("y", array(&x.shape, y)),
        ("kept", array(&[rows, width], kept)),
    ])
}
