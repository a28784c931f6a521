use layercast_core::Stream;
use serde::{Deserialize, Serialize};

use super::{Losses, StudyError, payloads};
use crate::{BlockDecoder, BlockEncoder, Code, Scheme};

/// Kind of repair.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Repair {
    /// The lost sources themselves.
    Raw,
    /// Fresh parities of their block, as many as the worst receiver needs.
    Parities,
}

/// Reliable multicast from one source over independent last hops (specs/packet-level-fec.md 2.4, S1).
#[derive(Clone, Copy, PartialEq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Star {
    /// The code.
    pub scheme: Scheme,
    /// Source packets of a block.
    pub n: usize,
    /// Parities sent with the block.
    pub m: usize,
    /// Loss rate of each receiver.
    pub e: f64,
    /// Receivers.
    pub group: u64,
    /// Source packets to send; blocks are sent whole.
    pub packets: u64,
    /// Repair of losses that remain after decoding.
    pub repair: Repair,
    /// Seed of the run.
    pub seed: u64,
}

/// Measured values.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize)]
pub struct StarFound {
    /// Source packets sent.
    pub packets: u64,
    /// Packets sent per source packet.
    pub cost: f64,
    /// Share of source packets missing after decoding of the first pass, over all receivers.
    pub residual: f64,
    /// Blocks decoded by receivers.
    pub decoded: u64,
    /// Source packets that were decoded incorrectly.
    pub wrong: u64,
}

/// A receiver that lacks sources of a block.
struct Lacking {
    lost: Vec<usize>,
    block: Option<BlockDecoder>,
}

impl Star {
    /// Sends all blocks with real codes to all receivers.
    ///
    /// # Errors
    ///
    /// [`StudyError`] if there is nothing to send or nothing would arrive.
    pub fn run(&self) -> Result<StarFound, StudyError> {
        if !(0.0..=0.9).contains(&self.e) {
            return Err(StudyError::Loss);
        }
        if self.n == 0 || self.n + self.m > 255 {
            return Err(StudyError::Block);
        }
        if self.packets == 0 || self.group == 0 {
            return Err(StudyError::Nothing);
        }
        let mut code = self.scheme.code();
        let mut losses = Losses::new(self.seed, "star/loss", self.e);
        let mut content = Stream::new(self.seed, "star/content");
        let mut found = StarFound::default();
        let (mut sent, mut left) = (0, 0);
        while found.packets < self.packets {
            let sources = payloads(self.n, &mut content);
            let Ok(mut block) = BlockEncoder::new(sources) else {
                return Err(StudyError::Block);
            };
            sent += (self.n + self.m) as u64;
            found.packets += self.n as u64;
            let mut lacking = self.first_pass(&mut *code, &mut block, &mut losses, &mut found);
            left += lacking.iter().map(|it| it.lost.len() as u64).sum::<u64>();
            sent += match self.repair {
                Repair::Raw => self.raw(&lacking, &mut losses),
                Repair::Parities => self.parities(
                    &mut *code,
                    &mut block,
                    &mut lacking,
                    &mut losses,
                    &mut found,
                ),
            };
        }
        found.cost = sent as f64 / found.packets as f64;
        found.residual = left as f64 / (found.packets * self.group) as f64;
        Ok(found)
    }

    /// The receivers that lack sources after one transmission of a block and decoding.
    fn first_pass(
        &self,
        code: &mut dyn Code,
        block: &mut BlockEncoder,
        losses: &mut Losses,
        found: &mut StarFound,
    ) -> Vec<Lacking> {
        let size = (self.n + self.m) as u64;
        let mut lost: Vec<(u64, usize)> = Vec::new();
        losses.each(size * self.group, |at| {
            lost.push((at / size, (at % size) as usize))
        });
        let mut lacking = Vec::new();
        for receiver in lost.chunk_by(|a, b| a.0 == b.0) {
            let sources: Vec<usize> = receiver
                .iter()
                .map(|it| it.1)
                .filter(|it| *it < self.n)
                .collect();
            if sources.is_empty() {
                continue;
            }
            let enough = receiver.len() <= self.m;
            if !enough && self.repair == Repair::Raw {
                lacking.push(Lacking {
                    lost: sources,
                    block: None,
                });
                continue;
            }
            let mut decoder = arrived(block, &sources);
            for index in (0..self.m).filter(|it| !receiver.iter().any(|lost| lost.1 == self.n + it))
            {
                put(code, block, &mut decoder, index);
            }
            if !(enough && decoded(code, block, &mut decoder, found)) {
                lacking.push(Lacking {
                    lost: sources,
                    block: Some(decoder),
                });
            }
        }
        lacking
    }

    /// Repairs source by source, each to all receivers until none lacks it; returns the number of packets.
    fn raw(&self, lacking: &[Lacking], losses: &mut Losses) -> u64 {
        let mut wanted = vec![0; self.n];
        for source in lacking.iter().flat_map(|it| &it.lost) {
            wanted[*source] += 1;
        }
        let mut sent = 0;
        for mut receivers in wanted {
            while receivers > 0 {
                sent += 1;
                receivers = losses.count(receivers);
            }
        }
        sent
    }

    /// Repairs the block by new parities; returns their number.
    fn parities(
        &self,
        code: &mut dyn Code,
        block: &mut BlockEncoder,
        lacking: &mut Vec<Lacking>,
        losses: &mut Losses,
        found: &mut StarFound,
    ) -> u64 {
        let mut next = self.m;
        while let Some(most) = lacking
            .iter()
            .filter_map(|it| it.block.as_ref())
            .map(BlockDecoder::needed)
            .max()
        {
            for index in next..next + most {
                let mut lost = Vec::new();
                losses.each(lacking.len() as u64, |at| lost.push(at as usize));
                for (receiver, lacking) in lacking.iter_mut().enumerate() {
                    let takes = lost.binary_search(&receiver).is_err();
                    if let Some(decoder) =
                        lacking.block.as_mut().filter(|it| takes && it.needed() > 0)
                    {
                        put(code, block, decoder, index);
                    }
                }
            }
            next += most;
            lacking.retain_mut(|it| {
                !it.block
                    .as_mut()
                    .is_some_and(|it| decoded(code, block, it, found))
            });
        }
        (next - self.m) as u64
    }
}

/// A receiver that has all sources except `lost`.
fn arrived(block: &BlockEncoder, lost: &[usize]) -> BlockDecoder {
    let mut decoder = BlockDecoder::new(block.payloads().len());
    for (index, payload) in block.payloads().iter().enumerate() {
        if !lost.contains(&index) {
            decoder.put_source(index, payload.clone());
        }
    }
    decoder
}

fn put(code: &mut dyn Code, block: &mut BlockEncoder, decoder: &mut BlockDecoder, index: usize) {
    if let Ok(parity) = block.parity(code, index) {
        decoder.put_parity(code, index, parity);
    }
}

/// Decodes; returns whether the block is complete.
fn decoded(
    code: &mut dyn Code,
    block: &BlockEncoder,
    decoder: &mut BlockDecoder,
    found: &mut StarFound,
) -> bool {
    let Ok(recovered) = decoder.decode(code) else {
        return false;
    };
    found.decoded += 1;
    let same = |index: &usize| decoder.payload(*index) == block.payloads().get(*index);
    found.wrong += recovered.recovered.iter().filter(|it| !same(it)).count() as u64;
    true
}
