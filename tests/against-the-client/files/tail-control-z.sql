-- MySQL dump 10.13  Distrib 5.7.44, for Win64 (x86_64)

CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(20));
INSERT INTO t VALUES (1,'a'),(2,NULL);

-- Dump completed on 2024-01-01  0:00:00
