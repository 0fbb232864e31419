// external-dns' own provider for PowerDNS, plan and TXT registry, with the wanted records on the
// command line instead of Kubernetes objects: URL KEY ZONE NAME=TYPE=TARGET[,TARGET]…
// Prints how many changes were needed.
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"strings"

	"sigs.k8s.io/external-dns/endpoint"
	"sigs.k8s.io/external-dns/pkg/apis/externaldns"
	"sigs.k8s.io/external-dns/plan"
	"sigs.k8s.io/external-dns/provider/pdns"
	"sigs.k8s.io/external-dns/registry/txt"
)

func main() {
	ctx := context.Background()
	url, key, zone := os.Args[1], os.Args[2], os.Args[3]
	types := []string{"A", "AAAA", "CNAME", "TXT", "SRV", "MX"}
	cfg := externaldns.NewConfig()
	cfg.PDNSServer, cfg.PDNSServerID, cfg.PDNSAPIKey = url, "localhost", key
	cfg.TXTOwnerID, cfg.TXTPrefix, cfg.ManagedDNSRecordTypes = "dunlin", "reg-", types
	filter := endpoint.NewDomainFilter([]string{zone})
	provider, err := pdns.New(ctx, cfg, filter)
	check(err)
	registry, err := txt.New(cfg, provider)
	check(err)
	var desired []*endpoint.Endpoint
	for _, wanted := range os.Args[4:] {
		parts := strings.SplitN(wanted, "=", 3)
		targets := strings.Split(parts[2], ",")
		desired = append(desired, endpoint.NewEndpointWithTTL(parts[0], parts[1], 60, targets...))
	}
	desired, err = registry.AdjustEndpoints(desired)
	check(err)
	current, err := registry.Records(ctx)
	check(err)
	planned := (&plan.Plan{
		Current: current, Desired: desired, Policies: []plan.Policy{&plan.SyncPolicy{}},
		DomainFilter:   endpoint.MatchAllDomainFilters{filter},
		ManagedRecords: types, OwnerID: "dunlin",
	}).Calculate().Changes
	fmt.Println(len(planned.Create) + len(planned.UpdateNew) + len(planned.Delete))
	if planned.HasChanges() {
		check(registry.ApplyChanges(ctx, planned))
	}
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
