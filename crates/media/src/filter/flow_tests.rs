use super::*;
use crate::{Clip, Synthetic};
use layercast_core::FrameRate;
use proptest::prelude::*;

const FPS: FrameRate = FrameRate { num: 24, den: 1 };

fn canyon(seed: u64) -> (Clip, FlowSpec) {
    let clip = Clip::synthetic(Synthetic::Canyon, FPS, 1_440, seed);
    let spec = clip.flow_spec();
    (clip, spec)
}

/// Cells/s above the base layer that a filter lets through at `level`.
fn above_base(filter: &mut FlowFilter, clip: &Clip, level: Level) -> f64 {
    let mut sum = 0;
    for frame in &clip.frames {
        if !level.includes(frame.layer()) {
            filter.look(frame);
            continue;
        }
        let out = filter.apply(frame.clone());
        assert_eq!(
            (out.picture, out.gop_start),
            (frame.picture, frame.gop_start)
        );
        if out.layer() != Layer::Base {
            sum += frame_cells(out.size);
        }
    }
    f64::from(sum) / clip.duration().as_secs_f64()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(ProptestConfig::default().cases / 10))]

    #[test]
    fn shaping_follows_any_rate_within_five_per_cent(rate in 100u32..2_800, seed in 0u64..50) {
        let (clip, spec) = canyon(seed);
        let mut filter = FlowFilter::new(FilterRule::Drs, &spec);
        let level = filter.level_for(CellRate(rate));
        prop_assert_eq!(level, Level::FULL);
        filter.set_rate(CellRate(rate), level);
        let got = above_base(&mut filter, &clip, level);
        prop_assert!((got / f64::from(rate) - 1.0).abs() < 0.05, "{got} instead of {rate}");
    }

    #[test]
    fn e1_alone_is_shaped_too(rate in 50u32..900) {
        let (clip, spec) = canyon(1);
        let mut filter = FlowFilter::new(FilterRule::Drs, &spec);
        filter.set_rate(CellRate(rate), Level::E1);
        let got = above_base(&mut filter, &clip, Level::E1);
        prop_assert!((got / f64::from(rate) - 1.0).abs() < 0.05, "{got} instead of {rate}");
    }

    #[test]
    fn no_frames_and_no_rates_break_it(
        frames in proptest::collection::vec((0u8..3, 1u32..40_000, any::<bool>()), 0..200),
        rate in any::<u32>(), top in 0u8..=2,
    ) {
        let mut filter = FlowFilter::new(FilterRule::Drs, &FlowSpec::default());
        for (kind, size, bytes) in frames {
            let picture = [Picture::I, Picture::P, Picture::B][usize::from(kind)];
            let data = bytes.then(|| Bytes::from(vec![kind; size as usize]));
            filter.set_rate(CellRate(rate), Level::new(top).unwrap());
            let frame = Frame {
                data,
                ..Frame::sized(picture, size)
            };
            let out = filter.apply(frame);
            prop_assert!(out.size >= 1 && out.size <= size);
            filter.level_for(CellRate(rate));
            prop_assert!(filter.e1_part(CellRate(rate)).0 <= rate);
        }
    }
}

#[test]
fn at_more_than_the_clip_has_nothing_is_dropped() {
    let (clip, spec) = canyon(3);
    let mut filter = FlowFilter::new(FilterRule::Drs, &spec);
    filter.set_rate(CellRate(9_000), Level::FULL);
    for frame in &clip.frames {
        assert_eq!(filter.apply(frame.clone()), *frame);
    }
}

#[test]
fn frames_that_are_no_video_make_the_rate_take_whole_layers() {
    let (clip, spec) = canyon(3);
    let mut filter = FlowFilter::new(FilterRule::Drs, &spec);
    for frame in &clip.frames {
        let data = Some(Bytes::from(vec![7; frame.size as usize]));
        filter.look(&Frame {
            data,
            ..frame.clone()
        });
    }
    let level = |rate| filter.level_for(CellRate(rate));
    assert_eq!(level(800), Level::BASE);
    assert_eq!(level(1_500), Level::E1);
    assert_eq!(level(3_500), Level::FULL);
}

#[test]
fn thinning_leaves_placeholders_and_low_pass_follows_its_table() {
    let (clip, spec) = canyon(4);
    let mut filter = FlowFilter::new(FilterRule::Thin { keep: 1, of: 2 }, &spec);
    let sizes = clip.frames.iter().map(|it| filter.apply(it.clone()).size);
    let small = sizes.filter(|&size| size == PLACEHOLDER).count();
    let b = clip.frames.iter().filter(|it| it.picture == Picture::B);
    assert_eq!(small, b.count() / 2);

    let shares = [1, 2, 3, 10, 15, 64].map(low_pass_permille);
    assert_eq!(shares, [322, 404, 486, 755, 841, 1_000]);
    let mut filter = FlowFilter::new(FilterRule::LowPass(10), &spec);
    above_base(&mut filter, &clip, Level::FULL);
    let behind = f64::from(filter.above_base(&spec, Level::FULL).0);
    let before = f64::from(spec.above_base(Level::FULL).0);
    assert!(
        (behind / before - 0.755).abs() < 0.02,
        "{behind} of {before}"
    );
}
