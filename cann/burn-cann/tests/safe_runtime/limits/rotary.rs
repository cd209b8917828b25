//! Tests of the limits of rotary position embedding.

use super::*;
use burn_cann::ops::rotary::{self, Axes, Style};

fn rope(
    platform: &Platform,
    x: &[usize],
    cos: &[usize],
    style: Style,
    axes: Axes,
) -> Result<Spec, Refusal> {
    rotary::check(platform, &f32(x), &f32(cos), &f32(cos), style, axes)
}

#[test]
fn rotary_s_limits() {
    use Axes::{
        BatchHeadsSequence as Bnsd, BatchSequenceHeads as Bsnd, SequenceBatchHeads as Sbnd,
    };
    use Style::{Half, Interleaved};
    let p = platform();
    for (axes, x, shared, by_batch) in [
        (Bnsd, [2, 3, 5, 8], [1, 1, 5, 8], [2, 1, 5, 8]),
        (Bsnd, [2, 5, 3, 8], [1, 5, 1, 8], [2, 5, 1, 8]),
        (Sbnd, [5, 2, 3, 8], [5, 1, 1, 8], [5, 2, 1, 8]),
    ] {
        rope(&p, &x, &shared, Half, axes).unwrap();
        rope(&p, &x, &by_batch, Half, axes).unwrap();
        rope(&p, &x, &x, Half, axes).unwrap();
        rope(&p, &x, &shared, Interleaved, axes).unwrap();
        refused(
            rope(&p, &x, &by_batch, Interleaved, axes),
            Kind::Shape,
            "cos has shape",
        );
        refused(
            rope(&p, &x, &x, Interleaved, axes),
            Kind::Shape,
            "cos has shape",
        );
        refused(
            rope(&p, &x, &[1, 1, 1, 8], Half, axes),
            Kind::Shape,
            "cos has shape",
        );
    }
    let table = |width| [1, 1, 5, width];
    refused(
        rope(&p, &[2, 3, 5, 7], &table(7), Half, Bnsd),
        Kind::Shape,
        "an even last dimension",
    );
    rope(&p, &[2, 3, 5, 894], &table(894), Half, Bnsd).unwrap();
    refused(
        rope(&p, &[2, 3, 5, 896], &table(896), Half, Bnsd),
        Kind::Shape,
        "at most 895",
    );
    rope(&p, &[999, 999, 5, 8], &table(8), Half, Bnsd).unwrap();
    refused(
        rope(&p, &[1000, 1, 5, 8], &table(8), Half, Bnsd),
        Kind::Shape,
        "the batch is 1000",
    );
    refused(
        rope(&p, &[1, 1000, 5, 8], &table(8), Half, Bnsd),
        Kind::Shape,
        "heads is 1000",
    );
    rope(&p, &[27, 37, 5, 8], &table(8), Interleaved, Bnsd).unwrap();
    let many = rope(&p, &[40, 25, 5, 8], &table(8), Interleaved, Bnsd);
    refused(many, Kind::Shape, "batch times heads is 1000");
    refused(
        rope(&p, &[2, 5, 8], &[1, 5, 8], Half, Bnsd),
        Kind::Shape,
        "x has 3 dimensions",
    );

    let x = f32(&[2, 3, 5, 8]);
    let (cos, f16) = (f32(&table(8)), spec(DType::F16, &table(8)));
    let check = |cos: &Spec, sin: &Spec| rotary::check(&p, &x, cos, sin, Half, Bnsd);
    refused(check(&f16, &cos), Kind::Dtype, "cos is of type f16");
    refused(check(&cos, &f16), Kind::Dtype, "sin is of type f16");
    refused(
        check(&cos, &f32(&[2, 1, 5, 8])),
        Kind::Shape,
        "sin has shape",
    );
}

#[test]
fn rotary_s_limits_by_version() {
    use Axes::{BatchHeadsSequence as Bnsd, TokensHeads};
    let tokens =
        |platform: &Platform| rope(platform, &[5, 3, 8], &[5, 1, 8], Style::Half, TokensHeads);
    refused(
        tokens(&platform()),
        Kind::Platform,
        "needs CANN 9.0 or later; this is 8.5.0",
    );
    tokens(&nine()).unwrap();
    // Half a head of 16 is 32 bytes of f32: at most eight rows of heads per position.
    let rows = |platform: &Platform, heads, width| {
        rope(
            platform,
            &[1, heads, 2, width],
            &[1, 1, 2, width],
            Style::Half,
            Bnsd,
        )
    };
    rows(&platform(), 17, 16).unwrap();
    rows(&nine(), 16, 16).unwrap();
    refused(
        rows(&nine(), 17, 16),
        Kind::Shape,
        "batch times heads is 17",
    );
    let unknown = Platform {
        version: Version::unknown(),
        ..platform()
    };
    refused(
        rows(&unknown, 17, 16),
        Kind::Shape,
        "batch times heads is 17",
    );
    // Half a head of 18 is not a multiple of 32 bytes: one position for 48 cores leaves no room, but wide heads are
    // exempt.
    refused(rows(&nine(), 1, 18), Kind::Shape, "batch times heads is 1");
    rows(&nine(), 17, 82).unwrap();
}

#[test]
fn rotary_grad_s_limits() {
    use Axes::BatchHeadsSequence as Bnsd;
    let check = |platform: &Platform, dy: &[usize], cos: &[usize], with_x: bool| {
        let (dy, cos) = (f32(dy), f32(cos));
        let x = with_x.then_some(&dy);
        rotary::check_grad(platform, &dy, &cos, &cos, x, Style::Half, Bnsd)
    };
    check(&platform(), &[2, 3, 5, 8], &[2, 1, 5, 8], true).unwrap();
    check(&platform(), &[64, 17, 5, 8], &[1, 1, 5, 8], false).unwrap();
    let many = check(&platform(), &[64, 17, 5, 8], &[1, 1, 5, 8], true);
    refused(many, Kind::Shape, "at most 1024");
    refused(
        check(&platform(), &[0, 3, 5, 8], &[1, 1, 5, 8], true),
        Kind::Shape,
        "dy has no elements",
    );
    check(&platform(), &[5, 1, 5, 8], &[5, 1, 5, 8], true).unwrap();
    let by_batch = check(&nine(), &[5, 2, 5, 16], &[5, 1, 5, 16], true);
    refused(by_batch, Kind::Shape, "a batch less than the sequence");
    check(&nine(), &[4, 2, 5, 16], &[4, 1, 5, 16], true).unwrap();
    let (dy, cos) = (f32(&[2, 4, 4, 8]), f32(&[1, 1, 4, 8]));
    let strided = turned(dy.clone(), 1, 2);
    let (style, p) = (Style::Half, platform());
    let checked = rotary::check_grad(&p, &strided, &cos, &cos, None, style, Bnsd);
    refused(checked, Kind::Layout, "dy is not contiguous");
    let checked = rotary::check_grad(&p, &dy, &cos, &cos, Some(&strided), style, Bnsd);
    refused(checked, Kind::Layout, "x is not contiguous");
}
