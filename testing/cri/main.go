// Drives a container runtime by the Kubernetes Container Runtime Interface, as a kubelet does, for
// tests. It reads one command a line, and answers each with one line: "ok …" or "error …".
//
//	cri SOCKET
//
//	pod NAME UID CGROUP_PARENT LOG_FOLDER [ANNOTATION=VALUE…]   -> ok POD_ID
//	create POD_ID NAME IMAGE SHARES QUOTA PERIOD ARGUMENT…      -> ok CONTAINER_ID
//	start CONTAINER_ID                                          -> ok
//	update CONTAINER_ID SHARES QUOTA PERIOD                     -> ok
//	state CONTAINER_ID                                          -> ok STATE EXIT_CODE
//	stop CONTAINER_ID                                           -> ok
//	remove CONTAINER_ID                                         -> ok
//	stop-pod POD_ID                                             -> ok
//	remove-pod POD_ID                                           -> ok
//
// Pods use the network of the host, so that no network plugin is needed.
package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"
)

type client struct {
	runtime cri.RuntimeServiceClient
	pods    map[string]*cri.PodSandboxConfig
}

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: cri SOCKET")
		os.Exit(2)
	}
	conn, err := grpc.NewClient("unix://"+os.Args[1], grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		fmt.Fprintln(os.Stderr, "cri:", err)
		os.Exit(1)
	}
	c := client{cri.NewRuntimeServiceClient(conn), map[string]*cri.PodSandboxConfig{}}
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(make([]byte, 1<<20), 1<<20)
	for lines.Scan() {
		words := strings.Split(lines.Text(), "\t")
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
		answer, err := c.do(ctx, words[0], words[1:])
		cancel()
		if err != nil {
			fmt.Println("error", strings.ReplaceAll(err.Error(), "\n", " "))
		} else {
			fmt.Println("ok", answer)
		}
	}
}

func (c *client) do(ctx context.Context, command string, words []string) (string, error) {
	least := map[string]int{"version": 0, "pod": 4, "create": 7, "update": 4}
	if n, known := least[command]; len(words) < max(n, 1) && !(known && n == 0) {
		return "", fmt.Errorf("%s: too few words", command)
	}
	switch command {
	case "version":
		answer, err := c.runtime.Version(ctx, &cri.VersionRequest{})
		if err != nil {
			return "", err
		}
		return answer.RuntimeName + " " + answer.RuntimeVersion, nil
	case "pod":
		return c.pod(ctx, words)
	case "create":
		return c.create(ctx, words)
	case "start":
		_, err := c.runtime.StartContainer(ctx, &cri.StartContainerRequest{ContainerId: words[0]})
		return "", err
	case "update":
		resources, err := resources(words[1:4])
		if err != nil {
			return "", err
		}
		_, err = c.runtime.UpdateContainerResources(ctx, &cri.UpdateContainerResourcesRequest{ContainerId: words[0], Linux: resources})
		return "", err
	case "state":
		answer, err := c.runtime.ContainerStatus(ctx, &cri.ContainerStatusRequest{ContainerId: words[0]})
		if err != nil {
			return "", err
		}
		return fmt.Sprint(answer.Status.State, " ", answer.Status.ExitCode), nil
	case "stop":
		_, err := c.runtime.StopContainer(ctx, &cri.StopContainerRequest{ContainerId: words[0]})
		return "", err
	case "remove":
		_, err := c.runtime.RemoveContainer(ctx, &cri.RemoveContainerRequest{ContainerId: words[0]})
		return "", err
	case "stop-pod":
		_, err := c.runtime.StopPodSandbox(ctx, &cri.StopPodSandboxRequest{PodSandboxId: words[0]})
		return "", err
	case "remove-pod":
		_, err := c.runtime.RemovePodSandbox(ctx, &cri.RemovePodSandboxRequest{PodSandboxId: words[0]})
		return "", err
	}
	return "", fmt.Errorf("unknown command %q", command)
}

func (c *client) pod(ctx context.Context, words []string) (string, error) {
	annotations := map[string]string{}
	for _, word := range words[4:] {
		key, value, _ := strings.Cut(word, "=")
		annotations[key] = value
	}
	config := &cri.PodSandboxConfig{
		Metadata:     &cri.PodSandboxMetadata{Name: words[0], Uid: words[1], Namespace: "default"},
		LogDirectory: words[3],
		Annotations:  annotations,
		Linux: &cri.LinuxPodSandboxConfig{
			CgroupParent: words[2],
			SecurityContext: &cri.LinuxSandboxSecurityContext{
				NamespaceOptions: &cri.NamespaceOption{Network: cri.NamespaceMode_NODE},
			},
		},
	}
	answer, err := c.runtime.RunPodSandbox(ctx, &cri.RunPodSandboxRequest{Config: config})
	if err != nil {
		return "", err
	}
	c.pods[answer.PodSandboxId] = config
	return answer.PodSandboxId, nil
}

func resources(words []string) (*cri.LinuxContainerResources, error) {
	numbers := [3]int64{}
	for i, word := range words {
		number, err := strconv.ParseInt(word, 10, 64)
		if err != nil {
			return nil, err
		}
		numbers[i] = number
	}
	return &cri.LinuxContainerResources{CpuShares: numbers[0], CpuQuota: numbers[1], CpuPeriod: numbers[2]}, nil
}

func (c *client) create(ctx context.Context, words []string) (string, error) {
	resources, err := resources(words[3:6])
	if err != nil {
		return "", err
	}
	pod, name := words[0], words[1]
	request := &cri.CreateContainerRequest{
		PodSandboxId:  pod,
		SandboxConfig: c.pods[pod],
		Config: &cri.ContainerConfig{
			Metadata: &cri.ContainerMetadata{Name: name},
			Image:    &cri.ImageSpec{Image: words[2]},
			Command:  words[6:],
			LogPath:  name + ".log",
			Linux: &cri.LinuxContainerConfig{
				Resources: resources,
				SecurityContext: &cri.LinuxContainerSecurityContext{
					NamespaceOptions: &cri.NamespaceOption{Network: cri.NamespaceMode_NODE},
				},
			},
		},
	}
	answer, err := c.runtime.CreateContainer(ctx, request)
	if err != nil {
		return "", err
	}
	return answer.ContainerId, nil
}
