//! `dunlin cache`: shows and flushes cached answers.
use crate::cli::{self, CacheCommand, Output};
use crate::local::LocalClient;
use command_line::{Side, align, count, format_bytes, plain, plural, span};
use server_status::command::{
    CachedAnswer, CommandOutcome, FlushScope, ThreadCacheEntry, ThreadFlushed,
};
use std::error::Error;
use std::io::{self, Write};
use std::process::ExitCode;

/// Sends the command to the server and prints the result.
///
/// # Errors
/// The server cannot be reached or refuses, or the result cannot be written.
pub fn run(command: &cli::Cache) -> Result<ExitCode, Box<dyn Error>> {
    let (server, outcome) = match &command.command {
        CacheCommand::Flush(flush) => {
            let client = LocalClient::new(&flush.server.local)?;
            (&flush.server, CommandOutcome::Flushed(client.flush_cache(&scope(flush))?))
        }
        CacheCommand::Show(show) => {
            let client = LocalClient::new(&show.server.local)?;
            let threads = client.show_cache(&show.name, show.rtype.as_deref())?;
            (&show.server, CommandOutcome::Shown(threads))
        }
    };
    let mut out = io::stdout().lock();
    match (server.output, &outcome) {
        (Output::Json, outcome) => {
            serde_json::to_writer_pretty(&mut out, outcome)?;
            writeln!(out)?;
        }
        (Output::Text, CommandOutcome::Flushed(threads)) => write_flushed(&mut out, threads)?,
        (Output::Text, CommandOutcome::Shown(threads)) => write_shown(&mut out, threads)?,
        (Output::Text, other) => return Err(format!("unexpected reply: {other:?}").into()),
    }
    Ok(ExitCode::SUCCESS)
}

fn scope(flush: &cli::Flush) -> FlushScope {
    match &flush.name {
        Some(name) if flush.subtree => FlushScope::Subtree(name.clone()),
        Some(name) => FlushScope::Name(name.clone()),
        // Clap requires either a name or `--all`.
        None => FlushScope::All,
    }
}

fn write_flushed(out: &mut impl Write, threads: &[ThreadFlushed]) -> io::Result<()> {
    let answers: u64 = threads.iter().map(|thread| thread.answers).sum();
    let under_way: u64 = threads.iter().map(|thread| thread.under_way).sum();
    let threads = plural(threads.len(), "thread");
    write!(out, "flushed {} from {threads}", plural(answers as usize, "answer"))?;
    if under_way > 0 {
        let number = count(under_way);
        let queries = if under_way == 1 { "query" } else { "queries" };
        write!(out, "; replies to {number} {queries} under way are not cached")?;
    }
    writeln!(out)
}

fn write_shown(out: &mut impl Write, threads: &[ThreadCacheEntry]) -> io::Result<()> {
    let head = ["THREAD", "TYPE", "FLAGS", "RESULT", "RECORDS", "LEFT", "AGE", "USES", "SIZE"];
    let mut rows = vec![head.map(str::to_owned)];
    for thread in threads {
        rows.extend(thread.answers.iter().map(|answer| row(&thread.thread, answer)));
    }
    if rows.len() == 1 {
        return writeln!(out, "no answer is cached in {}", plural(threads.len(), "thread"));
    }
    use Side::{Left, Right};
    for line in align([Left, Left, Left, Left, Right, Right, Right, Right, Right], &rows) {
        writeln!(out, "{line}")?;
    }
    let all: u64 = threads.iter().map(|thread| thread.count).sum();
    match all - rows[1..].len() as u64 {
        0 => Ok(()),
        more => writeln!(out, "and {} more: name a type to see them", count(more)),
    }
}

fn row(thread: &str, answer: &CachedAnswer) -> [String; 9] {
    let flags = [(answer.dnssec_ok, "DO"), (answer.checking_disabled, "CD")];
    let flags: Vec<&str> = flags.iter().filter(|(is, _)| *is).map(|(_, flag)| *flag).collect();
    let left = match answer.ttl.saturating_sub(answer.age) {
        0 => "stale".to_owned(),
        left => span(left.into()),
    };
    let result = if answer.is_unfinished { "an alias" } else { &answer.rcode };
    [
        plain(thread),
        plain(&answer.rtype),
        if flags.is_empty() { "-".into() } else { flags.join(" ") },
        plain(result),
        count(answer.records.into()),
        left,
        span(answer.age.into()),
        // The cache counts no further.
        if answer.uses < 3 { count(answer.uses.into()) } else { "3+".into() },
        format_bytes(answer.bytes),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(threads: &[ThreadCacheEntry]) -> String {
        let mut out = Vec::new();
        write_shown(&mut out, threads).expect("a Vec takes all");
        String::from_utf8(out).expect("UTF-8")
    }

    #[test]
    fn cached_answers_are_a_table() {
        let cached = CachedAnswer {
            rtype: "AAAA".into(),
            rcode: "NXDOMAIN".into(),
            age: 7,
            ttl: 3_607,
            uses: 3,
            bytes: 120,
            ..CachedAnswer::default()
        };
        let stale = CachedAnswer {
            rtype: "A".into(),
            rcode: "NOERROR".into(),
            records: 2,
            dnssec_ok: true,
            checking_disabled: true,
            is_unfinished: true,
            age: 70,
            ttl: 60,
            ..CachedAnswer::default()
        };
        let threads = [
            ThreadCacheEntry { thread: "worker-0".into(), count: 3, answers: vec![cached, stale] },
            ThreadCacheEntry { thread: "streams-0".into(), ..ThreadCacheEntry::default() },
        ];
        let expected = "\
            THREAD    TYPE  FLAGS  RESULT    RECORDS   LEFT    AGE  USES   SIZE\n\
            worker-0  AAAA  -      NXDOMAIN        0    1 h    7 s    3+  120 B\n\
            worker-0  A     DO CD  an alias        2  stale  1 min     0    0 B\n\
            and 1 more: name a type to see them\n";
        assert_eq!(shown(&threads), expected);
        assert_eq!(shown(&threads[1..]), "no answer is cached in 1 thread\n");
    }

    #[test]
    fn flush_result_is_one_line() {
        let thread =
            |answers, under_way| ThreadFlushed { answers, under_way, ..Default::default() };
        let text = |threads: &[ThreadFlushed]| {
            let mut out = Vec::new();
            write_flushed(&mut out, threads).expect("a Vec takes all");
            String::from_utf8(out).expect("UTF-8")
        };
        assert_eq!(text(&[thread(1_000, 0)]), "flushed 1,000 answers from 1 thread\n");
        let expected = "flushed 1 answer from 2 threads; replies to 3 queries under way are not \
                        cached\n";
        assert_eq!(text(&[thread(0, 2), thread(1, 1)]), expected);
    }
}
