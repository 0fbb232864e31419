//! A plugin beside a scripted runtime: what a real one does not do on demand.
//! `tests/all/containerd.rs` has a real one.
use super::*;
use std::os::unix::net::UnixListener;
use test_support::folder::Folder;

const SOON: Duration = Duration::from_secs(10);

/// The runtime's end of a plugin's connection.
struct Peer {
    stream: UnixStream,
    decoder: Decoder,
    folder: Folder,
}

impl Peer {
    fn new(test: &str) -> (Self, Plugin) {
        let folder = Folder::new(test);
        let listener = UnixListener::bind(folder.join("s")).expect("a socket");
        let plugin = Plugin::connect(&folder.join("s"), "dunlin", "10").expect("connected");
        let (stream, _) = listener.accept().expect("a connection");
        let mut peer = Self { stream, decoder: Decoder::default(), folder };
        let register = peer.read();
        assert_eq!((register.connection, register.kind), (RUNTIME, REQUEST));
        let call = Call::decode(&register.body[..]).expect("a call");
        assert_eq!(call.method, "RegisterPlugin");
        let request = RegisterRequest::decode(&call.payload[..]).expect("a request");
        assert_eq!((request.name.as_str(), request.index.as_str()), ("dunlin", "10"));
        (peer, plugin)
    }

    fn read(&mut self) -> Message {
        loop {
            if let Some(message) = self.decoder.next().expect("well formed") {
                return message;
            }
            let mut bytes = [0; 4_096];
            let length = self.stream.read(&mut bytes).expect("bytes");
            assert_ne!(length, 0, "closed");
            self.decoder.push(&bytes[..length]);
        }
    }

    fn call(&mut self, stream: u32, method: &str, request: &impl prost::Message) {
        let service = "nri.pkg.api.v1alpha1.Plugin".to_owned();
        let call = Call { service, method: method.into(), payload: request.encode_to_vec() };
        let message =
            Message { connection: PLUGIN, stream, kind: REQUEST, body: call.encode_to_vec() };
        self.stream.write_all(&encode(&message)).expect("written");
    }

    fn answer(&mut self) -> (u32, Answer) {
        let message = self.read();
        assert_eq!((message.connection, message.kind), (PLUGIN, RESPONSE));
        (message.stream, Answer::decode(&message.body[..]).expect("an answer"))
    }
}

fn containers(ids: &[&str]) -> Vec<Container> {
    ids.iter().map(|id| Container { id: (*id).into(), ..Container::default() }).collect()
}

#[test]
fn a_synchronization_in_parts_is_one_request() {
    let (mut peer, mut plugin) = Peer::new("parts");
    let part = |ids, more| SynchronizeRequest { pods: vec![], containers: containers(ids), more };
    peer.call(1, "Synchronize", &part(&["a", "b"], true));
    peer.call(3, "Synchronize", &part(&["c"], false));
    let (call, request) = plugin.next(SOON).expect("a connection").expect("a request");
    assert_eq!(request, Request::Synchronize(vec![], containers(&["a", "b", "c"])));
    let (stream, answer) = peer.answer();
    let more = SynchronizeResponse::decode(&answer.payload[..]).expect("a response");
    assert!(stream == 1 && more.more, "{answer:?}");
    plugin.answer(call, None).expect("a connection");
    assert_eq!(peer.answer().0, 3);
}

#[test]
fn a_container_is_adjusted_and_an_update_keeps_its_cpus() {
    let (mut peer, mut plugin) = Peer::new("adjust");
    let container = containers(&["a"]).pop();
    let request = LifecycleRequest { container, ..LifecycleRequest::default() };
    let cpu = LinuxCpu { cpus: "2-3".into(), ..LinuxCpu::default() };
    peer.call(1, "CreateContainer", &request);
    let (call, asked) = plugin.next(SOON).expect("a connection").expect("a request");
    assert!(matches!(&asked, Request::Create(_, container) if container.id == "a"), "{asked:?}");
    plugin.answer(call, Some(cpu.clone())).expect("a connection");
    let created = CreateResponse::decode(&peer.answer().1.payload[..]).expect("a response");
    let resources = created.adjust.and_then(|adjust| adjust.linux).and_then(|l| l.resources);
    assert_eq!(resources.and_then(|resources| resources.cpu), Some(cpu.clone()));
    peer.call(3, "UpdateContainer", &request);
    let (call, _) = plugin.next(SOON).expect("a connection").expect("a request");
    plugin.answer(call, Some(cpu.clone())).expect("a connection");
    let updated = UpdateResponse::decode(&peer.answer().1.payload[..]).expect("a response");
    assert_eq!(updated.update[0].container_id, "a");
    // Twice is once.
    plugin.answer(call, None).expect("a connection");
    peer.call(5, "Configure", &ConfigureRequest { request_timeout_ms: 7, ..Default::default() });
    assert_eq!(plugin.next(Duration::from_millis(200)).expect("a connection"), None);
    assert_eq!(peer.answer().0, 5);
    assert_eq!(plugin.runtime().request_timeout, Duration::from_millis(7));
}

#[test]
fn an_unknown_method_is_answered_and_a_refusal_is_an_error() {
    let (mut peer, mut plugin) = Peer::new("refused");
    peer.call(1, "Juggle", &PodRequest::default());
    assert_eq!(plugin.next(Duration::from_millis(200)).expect("a connection"), None);
    assert_eq!(peer.answer().1.status.map(|status| status.code), Some(UNIMPLEMENTED));
    let status = Some(Status { code: 13, message: "the name is taken".into() });
    let body = Answer { status, payload: vec![] }.encode_to_vec();
    let message = Message { connection: RUNTIME, stream: 1, kind: RESPONSE, body };
    peer.stream.write_all(&encode(&message)).expect("written");
    let error = plugin.next(SOON).expect_err("refused").to_string();
    assert!(error.contains("the name is taken"), "{error}");
}

#[test]
fn a_runtime_that_ends_or_sends_nonsense_is_an_error() {
    let (peer, mut plugin) = Peer::new("ended");
    drop(peer);
    assert!(matches!(plugin.next(SOON), Err(NriError::Closed)));
    let (mut peer, mut plugin) = Peer::new("nonsense");
    let body = vec![0xff; 9];
    let message = Message { connection: PLUGIN, stream: 1, kind: REQUEST, body };
    peer.stream.write_all(&encode(&message)).expect("written");
    assert!(matches!(plugin.next(SOON), Err(NriError::Malformed(_))));
    let missing = Plugin::connect(&peer.folder.join("none"), "dunlin", "10").err();
    let error = missing.expect("no socket").to_string();
    assert!(error.contains("containerd 2"), "{error}");
}

#[test]
fn a_caller_without_time_reads_what_is_there() {
    let (mut peer, mut plugin) = Peer::new("late");
    peer.call(1, "StopContainer", &LifecycleRequest::default());
    let begin = Instant::now();
    while plugin.next(Duration::ZERO).expect("a connection").is_none() {
        assert!(begin.elapsed() < SOON, "deaf");
    }
}

#[path = "../../../../testing/fuzz/checks/nri.rs"]
mod check;
#[path = "../../../../testing/fuzz/checks/corpus.rs"]
mod corpus;

#[test]
fn fuzz_corpus_of_runtimes_passes() {
    corpus::replay("nri", check::check);
    corpus::search("nri", check::check);
}
