//! The screen of `dunlin top`. A small terminal shows only the most important parts.
use super::rates::Rates;
use crate::limits::{HOT_SAMPLES_MIN, TOP_HISTORY_MAX};
use crate::status_text::quantile;
use command_line::{count, format_bytes, percent, plain, plural, rate, span};
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Cell, Paragraph, RenderDirection, Row, Sparkline, Table, Wrap};
use server_status::{HotEntry, Status, ZoneState};
use std::collections::VecDeque;

const BOLD: Style = Style::new().add_modifier(Modifier::BOLD);
const DIM: Style = Style::new().add_modifier(Modifier::DIM);
const WARN: Style = Style::new().fg(Color::Yellow);

/// The state of the screen.
#[derive(Debug, Default)]
pub struct Screen {
    pub status: Status,
    /// `None` before the second sample.
    pub rates: Option<Rates>,
    /// Queries per second, the latest first.
    history: VecDeque<u64>,
    pub paused: bool,
    /// Why the last request failed.
    pub error: Option<String>,
    /// Threads above the first visible one.
    pub scroll: usize,
}

impl Screen {
    /// Shows another sample.
    pub fn update(&mut self, status: Status, rates: Option<Rates>) {
        self.status = status;
        if let Some(rates) = &rates {
            self.history.push_front(rates.received.round() as u64);
            self.history.truncate(TOP_HISTORY_MAX);
        }
        self.rates = rates;
        self.error = None;
    }

    /// Draws the screen. Limits the scroll position to the threads there are.
    pub fn draw(&mut self, frame: &mut Frame<'_>) {
        let area = frame.area();
        let chart_height = if area.height >= 20 { 4 } else { 0 };
        let [head, facts, chart, below] = Layout::vertical([
            Constraint::Length(1),
            Constraint::Length(if area.height >= 8 { 3 } else { 1 }),
            Constraint::Length(chart_height),
            Constraint::Min(0),
        ])
        .areas(area);
        self.draw_head(frame, head);
        self.draw_facts(frame, facts);
        let chart = Rect { height: chart.height.saturating_sub(1), ..chart };
        let bars = self.history.iter().copied();
        let line = Sparkline::default().data(bars).direction(RenderDirection::RightToLeft);
        frame.render_widget(line.style(Style::new().fg(Color::Cyan)), chart);
        let Some(rates) = self.rates.take() else {
            frame.render_widget(Paragraph::new("waiting for a second sample …").style(DIM), below);
            return;
        };
        let bands: u16 = match (area.width, below.height) {
            (_, ..8) => 0,
            (..120, 13..) => 2,
            _ => 1,
        };
        let wanted = rates.threads.len() as u16 + 2;
        // Each band has a title and some lines, and an empty line before the next band.
        let lists_wanted = (bands * if below.height >= 30 { 12 } else { 5 }).saturating_sub(1);
        let table = wanted.min(below.height.saturating_sub(lists_wanted).max(4));
        let [threads, lists] =
            Layout::vertical([Constraint::Length(table), Constraint::Min(0)]).areas(below);
        self.draw_threads(frame, threads, &rates);
        match bands {
            0 => {}
            1 => self.draw_lists(frame, lists, &rates, &[0, 1, 2, 3, 4]),
            _ => {
                let [upper, lower] =
                    Layout::vertical([Constraint::Fill(1); 2]).spacing(1).areas(lists);
                self.draw_lists(frame, upper, &rates, &[0, 1, 2]);
                self.draw_lists(frame, lower, &rates, &[3, 4]);
            }
        }
        self.rates = Some(rates);
    }

    fn draw_head(&self, frame: &mut Frame<'_>, area: Rect) {
        let status = &self.status;
        let keys = match (self.paused, area.width) {
            (_, ..30) => "q quit",
            (true, _) => "PAUSED  p resume  q quit",
            (false, ..50) => "p pause  q quit",
            (false, _) => "↑↓ scroll  p pause  q quit",
        };
        let [left, right] = Layout::horizontal([
            Constraint::Min(0),
            Constraint::Length(keys.chars().count() as u16),
        ])
        .spacing(2)
        .areas(area);
        let title = match &self.error {
            Some(_) => Span::styled("no answer; showing the last status", WARN),
            None => {
                let up = span(status.gathered_seconds - status.started_seconds);
                let (version, state) = (plain(&status.version), status.state.name());
                Span::styled(format!("dunlin {version}  {state}, up {up}"), BOLD)
            }
        };
        frame.render_widget(Paragraph::new(title), left);
        frame.render_widget(Paragraph::new(keys).style(DIM), right);
    }

    /// Draws the totals, or why the last request failed.
    fn draw_facts(&self, frame: &mut Frame<'_>, area: Rect) {
        if let Some(why) = &self.error {
            let why = Paragraph::new(plain(why)).wrap(Wrap { trim: true });
            return frame.render_widget(why.style(WARN), area);
        }
        let status = &self.status;
        let mut facts = Vec::new();
        let mut fact = |name: &str, value: String| facts.push((format!("{name} "), value));
        if let Some(rates) = &self.rates {
            fact("received", rate(rates.received) + "/s");
            for (name, share) in [("p50", 0.5), ("p99", 0.99), ("p99.9", 0.999)] {
                fact(name, quantile(&rates.latency, share));
            }
            fact("dropped", rate(rates.dropped) + "/s");
            fact("replied", rate(rates.replied) + "/s");
        }
        let behind = status.zones.iter().filter(|zone| zone.state != ZoneState::Current).count();
        let of_store = status.store.as_ref().map_or(0, |store| store.zones);
        let zones = count(status.zones.len() as u64 + of_store);
        let zones = if behind == 0 { zones } else { format!("{zones}, {behind} not current") };
        fact("zones", zones);
        let accepted = self.rates.as_ref().map_or(0.0, |rates| rates.accepted);
        let (open, open_max) = (count(status.streams.open), count(status.streams.open_max));
        fact("streams", format!("{open} of {open_max}, {} new/s", rate(accepted)));
        fact("memory", format_bytes(status.process.resident_bytes));
        fact("imbalance", format!("{:.2}", status.imbalance));

        let mut lines = vec![Line::default()];
        for (name, value) in facts {
            let gap = if lines.last().is_some_and(|line| line.width() > 0) { 3 } else { 0 };
            let width = gap + name.chars().count() + value.chars().count();
            let last = lines.last_mut().expect("there is one");
            if last.width() + width > usize::from(area.width) && last.width() > 0 {
                lines.push(Line::from_iter([Span::styled(name, DIM), Span::raw(value)]));
            } else {
                let gap = Span::raw(" ".repeat(gap));
                last.extend([gap, Span::styled(name, DIM), Span::raw(value)]);
            }
        }
        frame.render_widget(Paragraph::new(lines), area);
    }

    fn draw_threads(&mut self, frame: &mut Frame<'_>, area: Rect, rates: &Rates) {
        let shown = usize::from(area.height.saturating_sub(2)).max(1);
        self.scroll = self.scroll.min(rates.threads.len().saturating_sub(shown));
        let last = (self.scroll + shown).min(rates.threads.len());
        let name = match rates.threads.len() {
            all if all > shown => format!("{}-{last} OF {all}", self.scroll + 1),
            _ => "THREAD".into(),
        };
        // Narrow terminals omit the less important columns.
        let columns = match area.width {
            0..34 => &[0, 2][..],
            34..50 => &[0, 2, 6],
            50..70 => &[0, 1, 2, 4, 6],
            _ => &[0, 1, 2, 3, 4, 5, 6, 7],
        };
        let heads = ["", "CPU", "RECEIVED/s", "REPLIED/s", "DROPPED/s", "P50", "P99", "P99.9"];
        let widths = match area.width {
            0..34 => [9, 0, 10, 0, 0, 0, 0, 0],
            _ => [13, 4, 11, 11, 10, 8, 8, 8],
        };
        let row = |cells: [String; 8]| {
            Row::new(columns.iter().map(|column| match column {
                0 => Cell::from(cells[0].clone()),
                _ => Cell::from(Line::from(cells[*column].clone()).right_aligned()),
            }))
        };
        let mut head = heads.map(str::to_owned);
        head[0] = name;
        let rows = rates.threads[self.scroll..last].iter().map(|thread| {
            row([
                plain(&thread.name),
                thread.cpu.map_or_else(|| "-".into(), |cpu| cpu.to_string()),
                rate(thread.received),
                rate(thread.replied),
                rate(thread.dropped),
                quantile(&thread.latency, 0.5),
                quantile(&thread.latency, 0.99),
                quantile(&thread.latency, 0.999),
            ])
        });
        let widths = columns.iter().map(|column| Constraint::Length(widths[*column]));
        frame.render_widget(Table::new(rows, widths).header(row(head).style(BOLD)), area);
    }

    /// Draws lists side by side, as many as are readable.
    fn draw_lists(&self, frame: &mut Frame<'_>, area: Rect, rates: &Rates, which: &[usize]) {
        let which = &readable(which, area.width);
        let ranks = |ranks: &[HotEntry]| -> Vec<(String, String)> {
            ranks.iter().map(|rank| (plain(&rank.what), percent(rank.share))).collect()
        };
        let paced = |rates: &[(String, f64)]| -> Vec<(String, String)> {
            rates.iter().map(|(what, number)| (plain(what), rate(*number))).collect()
        };
        // Names are long and get twice the width.
        let widths = which.iter().map(|list| Constraint::Fill(if *list == 3 { 2 } else { 1 }));
        let areas = Layout::horizontal(widths).spacing(GAP).split(area);
        for (list, area) in which.iter().zip(areas.iter()) {
            let hot = &self.status.hot;
            let few = match hot.samples {
                samples if samples < HOT_SAMPLES_MIN => {
                    format!(" ({})", plural(samples as usize, "sample"))
                }
                _ => String::new(),
            };
            let ((title, unit), rows) = match list {
                0 => (("RCODE".into(), "/s"), paced(&rates.rcodes)),
                1 => (("TYPE".into(), "/s"), paced(&rates.types)),
                2 => (("DROPPED".into(), "/s"), paced(&rates.reasons)),
                3 => ((format!("HOT NAME{few}"), "SHARE"), ranks(&hot.names)),
                _ => ((format!("HOT CLIENT{few}"), "SHARE"), ranks(&hot.clients)),
            };
            let [head, body] =
                Layout::vertical([Constraint::Length(1), Constraint::Min(0)]).areas(*area);
            let width = usize::from(area.width);
            frame.render_widget(Paragraph::new(two(&title, unit, width)).style(BOLD), head);
            let room = usize::from(body.height);
            let lines = rows.iter().take(room).map(|(what, number)| two(what, number, width));
            let lines: Vec<Line<'_>> = lines.map(Line::from).collect();
            frame.render_widget(Paragraph::new(lines), body);
        }
    }
}

/// Readable widths of the lists, by number: rcodes, types, drop reasons, names, clients.
const LIST_WIDTHS: [u16; 5] = [16, 12, 22, 26, 21];
/// Between lists.
const GAP: u16 = 3;

/// The lists that fit side by side, the most important chosen first, in ascending order.
fn readable(which: &[usize], width: u16) -> Vec<usize> {
    let (mut fit, mut taken) = (Vec::new(), 0);
    for list in [3, 0, 4, 1, 2].into_iter().filter(|list| which.contains(list)) {
        let gap = if fit.is_empty() { 0 } else { GAP };
        if fit.is_empty() || taken + gap + LIST_WIDTHS[list] <= width {
            taken += gap + LIST_WIDTHS[list];
            fit.push(list);
        }
    }
    fit.sort_unstable();
    fit
}

/// Two texts at the ends of a line. The first is cut if both do not fit.
fn two(first: &str, second: &str, width: usize) -> String {
    let room = width.saturating_sub(second.chars().count() + 1);
    let first: String = match first.chars().count() {
        len if len <= room => first.into(),
        _ => first.chars().take(room.saturating_sub(1)).chain(['…']).collect(),
    };
    format!("{first:<room$} {second}")
}
