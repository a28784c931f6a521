use super::picture::{Macroblock, Part};
use super::*;
use crate::mpeg::vlc::mb;
use crate::{Clip, Picture};

const STREAMS: [&[u8]; 4] = [
    include_bytes!("../../../../fuzz/corpus/filter/mpeg1"),
    include_bytes!("../../../../fuzz/corpus/filter/mpeg2"),
    include_bytes!("../../../../fuzz/corpus/filter/mpeg2-interlaced"),
    include_bytes!("../../../../fuzz/corpus/filter/mpeg2-quantiser"),
];

/// The macroblocks of each slice, with their addresses in it.
fn slices(picture: &CodedPicture) -> Vec<Vec<(u32, &Macroblock)>> {
    let slices = picture.parts.iter().filter_map(|part| match part {
        Part::Slice { macroblocks, .. } => Some(&picture.macroblocks[macroblocks.clone()]),
        Part::Raw(_) => None,
    });
    slices
        .map(|slice| {
            let mut address = 0;
            slice
                .iter()
                .map(|macroblock| {
                    address += macroblock.increment;
                    (address, macroblock)
                })
                .collect()
        })
        .collect()
}

fn read(frame: &Frame, headers: &mut Headers) -> CodedPicture {
    let mut picture = CodedPicture::default();
    let data = frame.data.as_ref().unwrap();
    picture.read(data, headers).unwrap();
    picture
}

#[test]
fn every_macroblock_keeps_its_place_vectors_and_quantiser() {
    let (mut skipped, mut stilled, mut requantised) = (0, 0, 0);
    for stream in STREAMS {
        let clip = Clip::parse(Bytes::from_static(stream)).unwrap();
        let (mut before, mut after) = (Headers::default(), Headers::default());
        for (frame, out) in clip
            .frames
            .iter()
            .zip(clip.low_pass(1).unwrap().clip.frames)
        {
            let (old, new) = (read(frame, &mut before), read(&out, &mut after));
            let (old, new) = (slices(&old), slices(&new));
            assert_eq!(old.len(), new.len());
            for (old, new) in old.iter().zip(&new) {
                let mut new = new.iter().peekable();
                for (index, (address, macroblock)) in old.iter().enumerate() {
                    let Some((_, kept)) = new.next_if(|(at, _)| at == address) else {
                        assert_eq!(frame.picture, Picture::P);
                        assert_eq!(macroblock.flags & !mb::QUANT, mb::PATTERN);
                        assert!(index != 0 && index + 1 != old.len());
                        skipped += 1;
                        continue;
                    };
                    let vectors = mb::FORWARD | mb::BACKWARD | mb::INTRA;
                    if kept.flags & vectors == macroblock.flags & vectors {
                        assert_eq!(kept.motion.len(), macroblock.motion.len());
                    } else {
                        assert_eq!(kept.flags, mb::FORWARD);
                        stilled += 1;
                    }
                    assert_eq!(kept.predictor, macroblock.predictor);
                    if !kept.blocks.is_empty() {
                        assert_eq!(kept.quantiser, macroblock.quantiser);
                        requantised += u32::from(kept.flags & !macroblock.flags & mb::QUANT != 0);
                    }
                }
                assert!(new.next().is_none());
            }
        }
    }
    // The streams have all cases.
    println!("{skipped} skipped, {stilled} stilled, {requantised} got a quantiser");
    assert!(skipped > 0 && stilled > 0 && requantised > 0);
}

#[test]
fn no_choice_of_breakpoints_of_a_block_beats_that_of_lambda() {
    let clip = Clip::parse(Bytes::from_static(STREAMS[0])).unwrap();
    let picture = read(&clip.frames[0], &mut Headers::default());
    let lambda = 50.0;
    let mut keep = Vec::new();
    picture.breakpoints(lambda, &mut keep);
    let mut partly = 0;
    for (block, &kept) in picture.blocks.iter().zip(&keep) {
        let coefficients = &picture.coefficients[block.coefficients.clone()];
        let cost = |kept: usize| {
            let dropped: f64 = coefficients[kept..]
                .iter()
                .map(|it| f64::from(it.energy))
                .sum();
            let end = coefficients[..kept].last().map_or(block.body, |it| it.end);
            dropped + lambda * (end - block.body) as f64
        };
        let least = (0..=coefficients.len())
            .map(cost)
            .fold(f64::INFINITY, f64::min);
        assert!(cost(kept.into()) <= least + 1e-6);
        partly += u32::from(kept > 0 && usize::from(kept) < coefficients.len());
    }
    assert!(partly > 10);
}

#[test]
fn a_smaller_budget_never_gives_a_larger_picture_or_less_distortion() {
    let clip = Clip::parse(Bytes::from_static(STREAMS[1])).unwrap();
    let frame = &clip.frames[0];
    let picture = read(frame, &mut Headers::default());
    let data = frame.data.as_ref().unwrap();
    let mut keep = Vec::new();
    let (mut last_bits, mut last_distortion) = (0, f64::INFINITY);
    for budget in (0..=10).map(|tenth| data.len() * 8 * tenth / 10) {
        let bits = picture.shape(data, budget, &mut keep);
        let distortion: f64 = picture
            .blocks
            .iter()
            .zip(&keep)
            .flat_map(|(block, &kept)| {
                picture.coefficients[block.coefficients.clone()]
                    .iter()
                    .skip(kept.into())
            })
            .map(|it| f64::from(it.energy))
            .sum();
        assert!(bits >= last_bits && distortion <= last_distortion);
        if budget > last_bits && last_bits > 0 {
            assert!(
                bits <= budget && bits * 100 >= budget * 98,
                "{bits} of {budget}"
            );
        }
        (last_bits, last_distortion) = (bits, distortion);
    }
    assert_eq!((last_bits, last_distortion), (data.len() * 8, 0.0));
}
