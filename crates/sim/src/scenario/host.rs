//! What a host or switch costs: nothing, the 1996 machines of specs/mets.md 3.2, or a table.

use layercast_core::{CellRate, Span};
use layercast_link::host::{ReceiveCosts, SendCosts};
use layercast_mets::switch::ReceiverLimits;
use layercast_qos::HostCost;
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::limits::MOST_STALLS;
use super::shorthand::{WordOrTable, Written, word_or_table, word_or_table_out};
use super::units::text;
use crate::text::Text;

/// Processing costs of a host or switch. The ideal host has none.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct HostProfile {
    /// Cost of a cell at a sender (c_tx).
    #[serde(with = "text")]
    #[schemars(with = "Text<Span>")]
    pub send_cell: Span,
    /// Cost of a packet at a sender (o_tx).
    #[serde(with = "text")]
    #[schemars(with = "Text<Span>")]
    pub send_packet: Span,
    /// Cost of a copy of a cell at a switch (c_sw).
    #[serde(with = "text")]
    #[schemars(with = "Text<Span>")]
    pub switch_cell: Span,
    /// Cost of a cell at a receiver: interrupt and copy (c_rx).
    #[serde(with = "text")]
    #[schemars(with = "Text<Span>")]
    pub receive_cell: Span,
    /// Cost of a packet at a receiver (o_rx).
    #[serde(with = "text")]
    #[schemars(with = "Text<Span>")]
    pub receive_packet: Span,
    /// Cells that the receiver's network interface holds (F); 0: no bound.
    pub nic_cells: u32,
    /// Receiver stalls per second and received flow (λ).
    #[schemars(range(min = 0, max = MOST_STALLS))]
    pub stall_rate: f64,
    /// The longest stall (W); the length of stalls is uniform up to it.
    #[serde(with = "text")]
    #[schemars(with = "Text<Span>")]
    pub stall_max: Span,
    /// Cost of a packet at user level (o_u).
    #[serde(with = "text")]
    #[schemars(with = "Text<Span>")]
    pub deliver_packet: Span,
    /// Cost of a cell at user level (c_u).
    #[serde(with = "text")]
    #[schemars(with = "Text<Span>")]
    pub deliver_cell: Span,
    /// Tick of the frame scheduler's clock.
    #[serde(with = "text")]
    #[schemars(with = "Text<Span>")]
    pub clock_tick: Span,
    /// Whether that clock has a random phase, drawn for each node, instead of a tick at time zero.
    pub random_clock: bool,
}

/// A profile by name or as a table.
#[derive(Clone, Copy, PartialEq, Default, Debug)]
pub enum HostChoice {
    /// `"ideal"`: no cost, no bound.
    #[default]
    Ideal,
    /// `"1996"`: the 90 MHz Pentium and the software switch of specs/mets.md 3.2.
    Pentium1996,
    /// `"1996-486"`: the 66 MHz 486, host costs times 1.8.
    I486,
    /// A table; what it does not give is ideal.
    Table(HostProfile),
}

impl Default for HostProfile {
    fn default() -> HostProfile {
        HostProfile {
            send_cell: Span::ZERO,
            send_packet: Span::ZERO,
            switch_cell: Span::ZERO,
            receive_cell: Span::ZERO,
            receive_packet: Span::ZERO,
            nic_cells: 0,
            stall_rate: 0.0,
            stall_max: Span::ZERO,
            deliver_packet: Span::ZERO,
            deliver_cell: Span::ZERO,
            clock_tick: Span::from_ms(1),
            random_clock: false,
        }
    }
}

impl HostProfile {
    /// The fitted costs of 1996 (specs/mets.md 3.2).
    pub const fn pentium_1996() -> HostProfile {
        let (send, receive) = (SendCosts::PENTIUM_1996, ReceiveCosts::PENTIUM_1996);
        HostProfile {
            send_cell: send.cell,
            send_packet: send.packet,
            switch_cell: Span::from_us(5),
            receive_cell: receive.cell,
            receive_packet: receive.packet,
            nic_cells: receive.nic_cells,
            stall_rate: 1.5,
            stall_max: Span::from_ms(16),
            deliver_packet: receive.deliver_packet,
            deliver_cell: receive.deliver_cell,
            clock_tick: Span::from_ms(10),
            random_clock: false,
        }
    }

    /// The 486 hosts: host costs times 1.8 (specs/mets.md 3.2).
    pub fn i486() -> HostProfile {
        let base = HostProfile::pentium_1996();
        let slower = |cost: Span| cost.mul_div(9, 5);
        HostProfile {
            send_cell: slower(base.send_cell),
            send_packet: slower(base.send_packet),
            receive_cell: slower(base.receive_cell),
            receive_packet: slower(base.receive_packet),
            deliver_packet: slower(base.deliver_packet),
            deliver_cell: slower(base.deliver_cell),
            ..base
        }
    }
}

impl HostProfile {
    /// What sending costs.
    pub fn sending(&self) -> SendCosts {
        SendCosts {
            cell: self.send_cell,
            packet: self.send_packet,
        }
    }

    /// What receiving costs; `None` if it neither costs anything nor stalls.
    pub fn receiving(&self) -> Option<ReceiveCosts> {
        let costs = ReceiveCosts {
            cell: self.receive_cell,
            packet: self.receive_packet,
            nic_cells: self.nic_cells,
            deliver_packet: self.deliver_packet,
            deliver_cell: self.deliver_cell,
        };
        let stalls = self.stall_rate != 0.0 || self.stall_max != Span::ZERO;
        (stalls || costs != ReceiveCosts::default()).then_some(costs)
    }

    /// What a receiver advertises as its drain rate: nine tenths of the cells that its processor can
    /// take in, which leaves the rest for packets and stalls (specs/mets.md 2.10, 8); 0 is no limit.
    pub fn drain(&self) -> CellRate {
        match self.receive_cell.as_ps() {
            0 => CellRate(0),
            cell => {
                let cells = Span::from_ms(900).as_ps() / cell;
                CellRate(u32::try_from(cells).unwrap_or(u32::MAX))
            }
        }
    }

    /// What admission reckons with at a sender (specs/mets.md 2.10).
    pub fn sender_cost(&self) -> Option<HostCost> {
        cost(self.send_cell, self.send_packet)
    }

    /// What admission reckons with at a receiver: its processor, and the rate up to which the
    /// longest stall does not overflow the interface (F/W, specs/mets.md 6.2).
    pub fn receiver_limits(&self) -> Option<ReceiverLimits> {
        let stalls = self.nic_cells > 0 && self.stall_rate > 0.0 && self.stall_max > Span::ZERO;
        let safe = stalls.then(|| {
            let second = u128::from(Span::from_secs(1).as_ps());
            let rate = u128::from(self.nic_cells) * second / u128::from(self.stall_max.as_ps());
            CellRate(u32::try_from(rate).unwrap_or(u32::MAX))
        });
        let cost = cost(self.receive_cell, self.receive_packet);
        (cost.is_some() || safe.is_some()).then(|| ReceiverLimits {
            cost: cost.unwrap_or_default(),
            safe,
        })
    }
}

fn cost(per_cell: Span, per_frame: Span) -> Option<HostCost> {
    (per_cell > Span::ZERO || per_frame > Span::ZERO).then_some(HostCost {
        per_cell,
        per_frame,
    })
}

impl HostChoice {
    /// The costs.
    pub fn profile(self) -> HostProfile {
        match self {
            HostChoice::Ideal => HostProfile::default(),
            HostChoice::Pentium1996 => HostProfile::pentium_1996(),
            HostChoice::I486 => HostProfile::i486(),
            HostChoice::Table(profile) => profile,
        }
    }
}

impl WordOrTable for HostChoice {
    type Table = HostProfile;
    const ACCEPTED: &'static str = "\"ideal\", \"1996\", \"1996-486\" or a table of costs";

    fn of_word(word: &str) -> Result<HostChoice, String> {
        match word {
            "ideal" => Ok(HostChoice::Ideal),
            "1996" => Ok(HostChoice::Pentium1996),
            "1996-486" => Ok(HostChoice::I486),
            _ => Err(format!("it is {word:?}; expected {}", HostChoice::ACCEPTED)),
        }
    }

    fn of_table(table: HostProfile) -> Result<HostChoice, String> {
        Ok(HostChoice::Table(table))
    }

    fn write(&self) -> Written<impl Serialize> {
        match self {
            HostChoice::Ideal => Written::Word("ideal".into()),
            HostChoice::Pentium1996 => Written::Word("1996".into()),
            HostChoice::I486 => Written::Word("1996-486".into()),
            HostChoice::Table(profile) => Written::Table(profile),
        }
    }
}

impl<'de> Deserialize<'de> for HostChoice {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<HostChoice, D::Error> {
        word_or_table(from)
    }
}

impl Serialize for HostChoice {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        word_or_table_out(self, to)
    }
}
