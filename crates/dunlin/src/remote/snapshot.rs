//! `dunlin zones snapshot` and `restore`: all zones of the store as one file.
use super::client::{Anyhow, Remote};
use super::{bar, confirm, write_json};
use crate::cli::{Output, RestoreSnapshot, TakeSnapshot};
use crate::human::plural;
use hyper::Method;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufReader, BufWriter, Seek, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

const SNAPSHOT: &str = "/v1/snapshot";
const MEDIA: &str = "application/octet-stream";

/// Writes a snapshot beside its place, checks it, and puts it there: what is there is whole.
pub fn take(take: &TakeSnapshot) -> Anyhow<()> {
    let remote = Remote::new(&take.server)?;
    let mut beside = take.file.clone().into_os_string();
    beside.push(".new");
    let beside = Path::new(&beside);
    let told = |why: io::Error| format!("{}: {why}", beside.display());
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(true).mode(0o600);
    let mut file = options.open(beside).map_err(told)?;
    let written = download(&remote, &mut file).and_then(|len| Ok((len, check(&mut file)?)));
    let (len, (revision, zones)) = match written {
        Ok(done) => done,
        Err(why) => {
            // Half of one is of no use.
            let _ = fs::remove_file(beside);
            return Err(why);
        }
    };
    file.sync_all().and_then(|()| fs::rename(beside, &take.file)).map_err(told)?;
    match take.server.output {
        Output::Json => write_json(&serde_json::json!({
            "file": take.file, "octets": len, "revision": revision.0, "zones": zones
        }))?,
        Output::Text => {
            let (zones, file) = (plural(zones, "zone"), take.file.display());
            writeln!(io::stdout().lock(), "{zones} as of revision {revision} in {file}")?;
        }
    }
    Ok(())
}

fn download(remote: &Remote, file: &mut File) -> Anyhow<u64> {
    let (bar, mut len) = (bar(None), 0);
    let mut out = BufWriter::new(file);
    let each = |more| {
        len += more as u64;
        bar.set_position(len);
    };
    let done = remote.download(SNAPSHOT.to_owned(), MEDIA, &mut out, each);
    bar.finish_and_clear();
    done?;
    out.flush()?;
    Ok(len)
}

/// Its revision, and how many zones it has.
fn check(file: &mut File) -> Anyhow<(records::Revision, usize)> {
    file.rewind()?;
    let mut zones = 0;
    let revision = records::snapshot::read(&mut BufReader::new(&*file), &mut |item| {
        zones += usize::from(matches!(item, records::snapshot::Item::Zone(..)));
        Ok(())
    })?;
    file.rewind()?;
    Ok((revision, zones))
}

/// Takes what a snapshot holds for all that is in the store.
pub fn restore(restore: &RestoreSnapshot) -> Anyhow<()> {
    let told = |why| format!("{}: {why}", restore.file.display());
    let mut file = File::open(&restore.file).map_err(|why| told(why.to_string()))?;
    let (revision, zones) = check(&mut file).map_err(|why| told(why.to_string()))?;
    let count = plural(zones, "zone");
    let what = format!("take {count} as of revision {revision} for all that is in the store");
    confirm(restore.yes, &what)?;
    let bar = bar(file.metadata().ok().map(|found| found.len()));
    let shown = bar.clone();
    let to = (Method::PUT, format!("{SNAPSHOT}?wait=live"));
    let each = move |len| shown.inc(len as u64);
    let sent = Remote::new(&restore.server)?.upload(to, MEDIA, file, each);
    bar.finish_and_clear();
    let receipt = sent?.body;
    match restore.server.output {
        Output::Json => write_json(&receipt)?,
        Output::Text => {
            let live = &receipt["revision"];
            writeln!(io::stdout().lock(), "{count} restored, and live as revision {live}")?;
        }
    }
    Ok(())
}
