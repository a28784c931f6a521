use layercast_core::{Composition, FrameRate, Layer, Level};

use crate::{Clip, ClipInfo, Frame};

/// What a picture of each rendition takes of one of the highest: 300, 900 and 2,500 kbit/s, as of 180, 360 and 720 rows.
const SHARES: [u64; 3] = [300, 900, 2_500];

impl Clip {
    /// A model of renditions: each level up to `top` has all pictures of the clip, at 12, 36 and 100 % of their sizes,
    /// those of one time from the lowest level upwards. The frames have no content.
    #[must_use]
    pub fn as_renditions(&self, top: Level) -> Clip {
        let rate = self.info.frame_rate;
        let count = u32::from(top.get()) + 1;
        let frames = self.frames.iter().enumerate().flat_map(|(place, frame)| {
            let time = rate.due(place as u64);
            let layers = Layer::ALL.into_iter().filter(move |&it| top.includes(it));
            layers.map(move |layer| {
                let size = u64::from(frame.size) * SHARES[layer.index()];
                Frame {
                    layer,
                    time: Some(frame.time.unwrap_or(time)),
                    size: u32::try_from(size.div_ceil(SHARES[2])).unwrap_or(u32::MAX),
                    data: None,
                    ..frame.clone()
                }
            })
        });
        Clip {
            frames: frames.collect(),
            info: ClipInfo {
                composition: Composition::Alternative,
                frame_rate: FrameRate {
                    num: rate.num.saturating_mul(count),
                    ..rate
                },
                ..self.info.clone()
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use layercast_core::Span;

    use super::*;
    use crate::Synthetic;

    #[test]
    fn a_model_of_renditions_has_all_pictures_at_each_level() {
        let rate = FrameRate { num: 24, den: 1 };
        let clip = Clip::synthetic(Synthetic::Canyon, rate, 240, 1);
        let model = clip.as_renditions(Level::FULL);
        assert_eq!(
            (model.duration(), model.frames.len()),
            (clip.duration(), 720)
        );
        assert_eq!(model.picture_rate(), rate);
        let spec = model.flow_spec();
        assert_eq!(spec.validate(), Ok(()));
        assert_eq!(spec.frames_at(Level::BASE), rate);
        let [low, middle, high] =
            [Level::BASE, Level::E1, Level::FULL].map(|it| f64::from(spec.rate_at(it).0));
        let whole = f64::from(clip.flow_spec().rate_at(Level::FULL).0);
        assert!((high / whole - 1.0).abs() < 0.01, "{high} {whole}");
        // Whole cells round up.
        assert!((0.12..0.15).contains(&(low / high)), "{low} {high}");
        assert!((0.36..0.39).contains(&(middle / high)), "{middle} {high}");
        for (place, group) in model.frames.chunks(3).enumerate() {
            assert!(
                group
                    .iter()
                    .all(|it| it.time == Some(rate.due(place as u64)))
            );
            assert!(group.is_sorted_by_key(|it| (it.layer, it.size)));
            assert!(group.iter().all(|it| it.gop_start == (place % 12 == 0)));
        }
        let two = clip.as_renditions(Level::E1);
        assert_eq!(two.flow_spec().top_level(), Level::E1);
        assert_eq!(two.with_duration(Span::from_secs(5)).frames.len(), 240);
    }
}
