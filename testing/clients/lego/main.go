// lego's own provider for PowerDNS: DNS KEY URL present|cleanup DOMAIN TOKEN. The zone is found by
// SOA queries to DNS, as lego does.
package main

import (
	"context"
	"log"
	"net/url"
	"os"

	"github.com/go-acme/lego/v5/challenge/dns01"
	"github.com/go-acme/lego/v5/providers/dns/pdns"
)

func main() {
	ctx := context.Background()
	options := dns01.NewOptions()
	options.RecursiveNameservers = []string{os.Args[1]}
	dns01.SetDefaultClient(dns01.NewClient(options))
	config := pdns.NewDefaultConfig()
	config.APIKey = os.Args[2]
	host, err := url.Parse(os.Args[3])
	check(err)
	config.Host = host
	provider, err := pdns.NewDNSProviderConfig(config)
	check(err)
	domain, token := os.Args[5], os.Args[6]
	switch os.Args[4] {
	case "present":
		check(provider.Present(ctx, domain, token, token))
	case "cleanup":
		check(provider.CleanUp(ctx, domain, token, token))
	}
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
